"""Statistics of the calls of operators without a native kernel."""

from typing import TypedDict, cast

import torch

from .. import _C


class SeenTensor(TypedDict):
    """A tensor argument of a call. A nested tensor has no shape."""

    argument: str
    dtype: torch.dtype
    shape: tuple[int, ...] | None


class OperatorUsage(TypedDict):
    """The calls of one operator since the start, or since ``reset_fallback_counts``.

    ``seconds`` is the time that all calls took on the calling thread, together, as estimated from the ``timed_calls``:
    the first 16, then about one in 64. ``widened_calls`` were computed in a wider dtype than that of their arguments,
    which PyTorch's CPU kernel lacks, and rounded. ``dtypes`` are those of the tensors given to timed calls. ``first_call`` holds
    the first tensors given to the first call, 16 at most; ``omitted`` is how many more there were.
    """

    calls: int
    timed_calls: int
    widened_calls: int
    seconds: float
    dtypes: list[torch.dtype]
    first_call: list[SeenTensor]
    omitted: int


def usage() -> dict[str, OperatorUsage]:
    """Return the statistics of each operator that ran without a native kernel, by name, the most frequent first.

    The operators and their calls are those of ``fallback_counts``. Calls that the policy refused are counted as well;
    they take no time.
    """
    return cast("dict[str, OperatorUsage]", _C._fallback_usage())
