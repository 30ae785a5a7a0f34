"""List the named models; say what one would take (`--dry-run NAME`); load one and check it (`--check NAME`)."""

import argparse
import re
import sys

from vfkit.models import ModelUnavailable, dry_run, listing, self_check


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.models", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", metavar="NAME", help="name, hub id or folder with a config: parameters and memory")
    what.add_argument("--check", metavar="NAME", help="name, hub id or folder: load it and read two pictures with it")
    parser.add_argument("--size", default="1024x768", help="WIDTHxHEIGHT of the image whose tokens --dry-run counts")
    parser.add_argument("--device", help="for --check: a torch device, or auto")
    parser.add_argument("--dtype", help="for --check: float32, bfloat16 or float16")
    parser.add_argument("--n", type=int, default=500, help="for --check: samples of the study that is estimated")
    given = parser.parse_args()
    if not (size := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", given.size)):
        parser.error(f"--size {given.size!r} is not of the form WIDTHxHEIGHT, such as 1024x768")
    try:
        if given.check:
            report = self_check(given.check, given.device, given.dtype, given.n)
            print(report)
            sys.exit(1 if report.wrong else 0)
        elif given.dry_run:
            print(dry_run(given.dry_run, (int(size[1]), int(size[2]))))
        else:
            print(listing().to_string(index=False, na_rep="", float_format="{:g}".format))
    except (ModelUnavailable, ValueError) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
