"""Questions: defaults, derived names, and the answers that each validator accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch_backend.maintenance.layout import FEATURES
from torch_backend.maintenance.trace import trace
from torch_backend.source import Source

from .conftest import answers_of, render_into
from .torch_release import MINOR, RANGE, RELEASES

Answer = Callable[..., Path]


@pytest.fixture
def answer(questions: Source, tmp_path: Path) -> Answer:
    """Renders only the answers file, from the given answers."""

    def call(**answers: Any) -> Path:
        return render_into(questions, tmp_path / "project", **answers)

    return call


def test_defaults_follow_from_the_vendor_name(answer: Answer) -> None:
    answers = answers_of(answer())
    del answers["_src_path"]
    assert answers == {
        "vendor_name": "Acme",
        "device_name": "acme",
        "package_name": "torch_acme",
        "device_library": "emulated",
        "sdk_name": "acme_sim",
        "sdk_prefix": "acmesim",
        "description": "PyTorch backend for the Acme device",
        "author": "Acme developers",
        "author_email": "developers@acme.example.com",
        "license": "BSD-3-Clause",
        "repository_url": "https://example.com/acme/torch_acme",
        "torch_minor": MINOR,
        "num_devices": 2,
        "device_memory": "4G",
        "features": list(FEATURES),
        "code_owners": "",
    }


def test_an_emulator_is_not_asked_about_where_there_is_none(answer: Answer) -> None:
    asked = answers_of(answer(device_library="external")).keys()
    assert not asked & {"sdk_name", "sdk_prefix", "num_devices", "device_memory"}


@pytest.mark.parametrize(
    ("vendor", "device", "prefix"),
    [
        ("Zed", "zed", "zedsim"),
        ("Acme Systems", "acme_systems", "acmesystesim"),
        ("Möller & Søn 3.0", "moeller_soen_threezero", "moellersosim"),
        ("3D-Labs", "threed_labs", "threedlabsim"),
        ("Meta", "meta_npu", "metanpusim"),  # an in-tree device
        ("Class", "class_npu", "classnpusim"),  # a keyword
        ("X", "x_npu", "xnpusim"),  # too short
        ("日本", "my_npu", "mynpusim"),  # nothing to derive from
        ("A Very Long Vendor Name For A Chip", "a_very_long_vendor_name_for_a", "averylongsim"),
    ],
)
def test_names_follow_from_the_vendor_name(questions: Source, vendor: str, device: str, prefix: str) -> None:
    values = trace(questions, {"vendor_name": vendor}).values
    assert (values["device_name"], values["sdk_prefix"]) == (device, prefix)
    assert values["package_name"] == f"torch_{device}"
    assert values["sdk_name"] == f"{device}_sim"


def test_derived_values_are_valid_in_their_files(questions: Source) -> None:
    values = trace(questions, {"vendor_name": "Acme", "license": "proprietary", "author": 'A "B" É'}).values
    assert values["package_macro"] == "TORCH_ACME"
    assert values["sdk_macro"] == "ACME_SIM"
    assert values["torch_requirement"] == RANGE
    assert values["license_expression"] == "LicenseRef-Proprietary"
    assert values["author_literal"] == '"A \\"B\\" É"'


GOOD: list[tuple[str, Any]] = [
    ("vendor_name", "Acme & Co. 3-D+"),
    ("vendor_name", "Łukasz"),
    ("device_name", "zz"),
    ("device_name", "very_long_vendor_name"),
    ("device_name", "a" * 30),
    ("package_name", "acme2_torch"),
    ("device_library", "external"),
    ("sdk_name", "acme2"),
    ("sdk_prefix", "ac"),
    ("sdk_prefix", "ac2"),
    ("description", 'He said "it\'s naïve" 🚀'),
    ("author", 'Zoë "Q" O\'Neil'),
    ("author_email", "a.b+c@d-e.co.uk"),
    ("license", "proprietary"),
    ("repository_url", "http://git.example.com:8080/a/b.git"),
    ("torch_minor", MINOR),
    ("num_devices", 1),
    ("num_devices", 64),
    ("device_memory", "64M"),
    ("device_memory", "1T"),
    ("features", []),
    ("code_owners", "@acme/backend @j-doe jane.doe@example.com"),
    ("code_owners", ""),
]

# What is refused, and a part of the sentence that says what to type instead.
BAD: list[tuple[str, Any, str]] = [
    ("vendor_name", "", "type a name such as Acme"),
    ("vendor_name", "  ", "type a name such as Acme"),
    ("vendor_name", 'Ac"me', "letters, digits, spaces"),
    ("vendor_name", "Ac'me", "letters, digits, spaces"),
    ("vendor_name", "Ac/me", "letters, digits, spaces"),
    ("vendor_name", "Ac\\me", "letters, digits, spaces"),
    ("vendor_name", "Ac\nme", "letters, digits, spaces"),
    ("vendor_name", "{{ 7 * 7 }}", "letters, digits, spaces"),
    ("vendor_name", " Acme", "type letters, digits, single spaces"),
    ("vendor_name", "Acme ", "type letters, digits, single spaces"),
    ("vendor_name", "A" * 41, "type a shorter one"),
    ("device_name", "", "type the name for torch.device"),
    ("device_name", "npu2", "spell them out"),
    ("device_name", "MyDev", "type it in lower case"),
    ("device_name", "my-dev", "type only lower-case letters and _"),
    ("device_name", "my dev", "type only lower-case letters and _"),
    ("device_name", "my.dev", "type only lower-case letters and _"),
    ("device_name", "../dev", "type only lower-case letters and _"),
    ("device_name", "dév", "type only lower-case letters and _"),
    ("device_name", "acme\n", "type only lower-case letters and _"),
    ("device_name", "a", "type 2 to 30 lower-case letters"),
    ("device_name", "a" * 31, "type 2 to 30 lower-case letters"),
    ("device_name", "_ab", "type 2 to 30 lower-case letters"),
    ("device_name", "ab_", "type 2 to 30 lower-case letters"),
    ("device_name", "a__b", "type 2 to 30 lower-case letters"),
    *[("device_name", name, "is a device of PyTorch itself: type a name of your own") for name in
      ("cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla", "privateuseone", "mtia", "vulkan", "ipu", "maia")],
    *[("device_name", name, "is a keyword or a predefined name") for name in
      ("class", "lambda", "match", "namespace", "register", "co_await", "std", "at", "torch", "linux", "unix")],
    *[("device_name", name, "is a Python builtin or a module of the standard library") for name in
      ("list", "print", "json", "signal", "random")],
    *[("device_name", name, "is already a name in torch") for name in
      ("add", "quantized", "sparse", "device", "data", "forward", "linalg", "accelerator", "train", "new_empty")],
    *[("device_name", name, "is declared by the C library") for name in ("read", "write", "free", "kill", "usleep")],
    ("device_name", "csrc", "is a folder or a module inside the package"),
    ("package_name", "", "type the name for the import"),
    ("package_name", "torch-acme", "type 2 to 40 lower-case letters"),
    ("package_name", "2torch", "type 2 to 40 lower-case letters"),
    ("package_name", "Torch", "type 2 to 40 lower-case letters"),
    ("package_name", "a/b", "type 2 to 40 lower-case letters"),
    ("package_name", "a b", "type 2 to 40 lower-case letters"),
    ("package_name", "acme", "same name as the device"),
    ("package_name", "import", "is a keyword"),
    ("package_name", "json", "is a Python builtin or a module of the standard library"),
    ("package_name", "torch", "existing package"),
    ("package_name", "torch_npu", "existing package"),
    ("package_name", "torch_python", "existing package"),
    ("package_name", "tests", "name of the C library or of a folder"),
    ("device_library", "none", "is not in ['emulated', 'external']"),
    ("sdk_name", "", "type the name of the emulated device library"),
    ("sdk_name", "acme-sim", "type 2 to 40 lower-case letters"),
    ("sdk_name", "../sim", "type 2 to 40 lower-case letters"),
    ("sdk_name", "torch_acme", "both would be libtorch_acme.so"),
    ("sdk_name", "free", "type another name"),
    ("sdk_name", "pthread", "type another name"),
    ("sdk_name", "cudart", "type another name"),
    ("sdk_prefix", "", "type 2 to 12 lower-case letters"),
    ("sdk_prefix", "a", "type 2 to 12 lower-case letters"),
    ("sdk_prefix", "Ac", "type 2 to 12 lower-case letters"),
    ("sdk_prefix", "ac_", "type 2 to 12 lower-case letters"),
    ("sdk_prefix", "morethantwelve", "type 2 to 12 lower-case letters"),
    *[("sdk_prefix", name, "type another prefix") for name in ("cu", "cuda", "hip", "str", "mem", "pthread", "acl")],
    ("description", "", "type one line of text"),
    ("description", "a\nb", "type one line of plain text"),
    ("description", "a\tb", "type one line of plain text"),
    ("description", "a\u2028b", "type one line of plain text"),
    ("description", "a\\b", "type it without"),
    ("description", " a", "type it without"),
    ("description", "a" * 201, "type a shorter one"),
    ("author", "", "type one line of text"),
    ("author", "a\r\nb", "type one line of plain text"),
    ("author_email", "", "type one such as"),
    ("author_email", "a@b", "type one such as"),
    ("author_email", 'a"@b.c', "type one such as"),
    ("license", "GPL-3.0", "is not in ['BSD-3-Clause'"),
    ("repository_url", "", "type one such as"),
    ("repository_url", "git@example.com:a/b", "type one such as"),
    ("repository_url", 'https://example.com/"', "type one such as"),
    ("torch_minor", "1.0", f"is not in {list(RELEASES)}"),
    ("num_devices", 0, "type a number from 1 to 64"),
    ("num_devices", 65, "type a number from 1 to 64"),
    ("num_devices", "two", "invalid literal"),
    ("device_memory", "4GB", "type a number with M, G or T"),
    ("device_memory", "", "type a number with M, G or T"),
    ("device_memory", "1M", "type a size from 64M to 1T"),
    ("device_memory", "2T", "type a size from 64M to 1T"),
    ("features", ["teleport"], "is not in ['benchmarks'"),
    ("code_owners", "acme", "type users, teams or e-mail addresses"),
    ("code_owners", "@acme, @jane", "type users, teams or e-mail addresses"),
    ("code_owners", "@acme/backend\n* @mallory", "type users, teams or e-mail addresses"),
]  # fmt: skip


def _name(value: object) -> str:
    return re.sub(r"\W+", "-", str(value))[:24]


@pytest.mark.parametrize(("question", "value"), GOOD, ids=_name)
def test_good_answers_are_accepted(answer: Answer, question: str, value: Any) -> None:
    assert answers_of(answer(**{question: value}))[question] == value


@pytest.mark.parametrize(("question", "value", "advice"), BAD, ids=_name)
def test_bad_answers_are_refused_with_advice(
    answer: Answer, tmp_path: Path, question: str, value: Any, advice: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(advice)):
        answer(**{question: value})
    assert not (tmp_path / "project").exists()


def test_every_question_is_tried(source: Source) -> None:
    assert set(source.questions) == {question for question, *_ in GOOD} == {question for question, *_ in BAD}


def test_features_are_those_of_the_generator(source: Source) -> None:
    assert set(source.questions["features"]["choices"].values()) == set(FEATURES)


def test_nothing_needs_trust(source: Source) -> None:
    assert not {"_tasks", "_migrations", "_jinja_extensions"} & source.config.keys()
