"""List the named models, or say what one would take: `python -m vfkit.models [--dry-run NAME] [--size 1024x768]`."""

import argparse
import re
import sys

from vfkit.models import ModelUnavailable, dry_run, listing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.models", description=__doc__)
    parser.add_argument("--dry-run", metavar="NAME", help="name, hub id or folder with a config")
    parser.add_argument("--size", default="1024x768", help="WIDTHxHEIGHT of the image whose tokens are counted")
    given = parser.parse_args()
    if not given.dry_run:
        print(listing().to_string(index=False, na_rep="", float_format="{:g}".format))
        return
    if not (size := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", given.size)):
        parser.error(f"--size {given.size!r} is not of the form WIDTHxHEIGHT, such as 1024x768")
    try:
        print(dry_run(given.dry_run, (int(size[1]), int(size[2]))))
    except (ModelUnavailable, ValueError) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
