"""Where an answer breaks: states by layer, the margin by layer, patches, hidden tokens, attention, sensitivity.

`layers.py` has the hooks on the text model's layers, `scene.py` one question on one image with its places, and
`passes.py` the engine's forward pass under these hooks. `oracle.py` is the slow and obvious way to the same numbers,
and `verify.py` holds the two against each other. `attribute.py` makes a sample's rows. METHODS 16 has the definitions.
"""

from typing import Literal, get_args

Measure = Literal["states", "lens", "patching", "knockout", "attention", "radius"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""What a study can measure inside the model, besides its ordinary readouts."""

PLACES = ("image", "region", "question", "answer")
"""Image tokens; of these the ones that show what a perturbation changed; text tokens from the first image token on; the
last token of the prompt, which predicts the answer's first."""
