"""Questions: defaults, derived names, and the answers that each validator accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.nodes import Macro, TemplateData
from jinja2.sandbox import SandboxedEnvironment
from torch_backend.maintenance import reserved
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
        "num_devices": "2",
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
    ("num_devices", "1"),
    ("num_devices", "64"),
    ("device_memory", "64M"),
    ("device_memory", "1T"),
    ("features", []),
    ("code_owners", "@acme/backend @j-doe jane.doe@example.com"),
    ("code_owners", ""),
]

# What is refused, and the whole message.
BAD: list[tuple[str, Any, str]] = [
    *[("vendor_name", name, "Type a name, such as Acme.") for name in ("", "  ")],
    *[("vendor_name", name, "Use letters, digits, space and .&+-") for name in
      ('Ac"me', "Ac'me", "Ac/me", "Ac\\me", "Ac\nme", "Acme\n", "Ac\tme", "{{ 7 * 7 }}", "Ac|me", "$(acme)")],
    *[("vendor_name", name, "Begin with a letter or a digit.") for name in (" Acme", "_Acme", ".Acme", "-Acme")],
    *[("vendor_name", name, "Remove the space or _ at the end.") for name in ("Acme ", "Acme_")],
    ("vendor_name", "Acme  Co", "Use single spaces."),
    ("vendor_name", "A" * 41, "Use at most 40 characters."),
    ("device_name", "", "Type a name, such as acme."),
    ("device_name", "npu2", "Use no digits: they are an index."),
    ("device_name", "MyDev", "Use lower case, as PyTorch does."),
    *[("device_name", name, "Use only the letters a-z and _.") for name in
      ("my-dev", "my dev", "my.dev", "../dev", "dév", "acme\n")],
    *[("device_name", name, "Use 2 to 30 letters.") for name in ("a", "a" * 31)],
    *[("device_name", name, "Use single _ between letters.") for name in ("_ab", "ab_", "a__b")],
    *[("device_name", name, "Use another name: PyTorch has this.") for name in
      ("cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla", "privateuseone", "mtia", "vulkan", "ipu", "maia")],
    *[("device_name", name, "Use another name: it is a keyword.") for name in
      ("class", "lambda", "match", "namespace", "register", "co_await")],
    *[("device_name", name, "Use another name: Python has this.") for name in
      ("list", "print", "json", "signal", "random")],
    *[("device_name", name, "Use another name: torch has this.") for name in  # the last five have operators
      ("add", "quantized", "sparse", "device", "data", "forward", "linalg", "accelerator", "train", "new_empty",
       "aten", "prim", "prims", "inductor", "symm_mem")],
    *[("device_name", name, "Use another name: C++ has this.") for name in  # functions, types, macros and namespaces
      ("read", "write", "free", "kill", "usleep", "digit", "setter", "getter", "destructor", "visitproc", "siginfo_t",
       "linux", "unix", "at", "py", "ska", "libkineto", "fmt")],
    *[("device_name", name, "Use another name: the code has it.") for name in
      ("fallback", "graph", "native", "csrc", "features", "include_paths", "cmake_prefix_path", "emulator")],
    ("package_name", "", "Type a name, such as torch_acme."),
    *[("package_name", name, "Use only a-z, 0-9 and _.") for name in ("torch-acme", "Torch", "a/b", "a b", "ab\n")],
    ("package_name", "2torch", "Begin with a letter."),
    *[("package_name", name, "Use single _, and none at the end.") for name in ("torch__acme", "torch_")],
    *[("package_name", name, "Use 2 to 40 characters.") for name in ("a", "a" * 41)],
    ("package_name", "acme", "Use another name than the device."),
    ("package_name", "import", "Use another name: it is a keyword."),
    *[("package_name", name, "Use another name: Python has this.") for name in ("json", "all", "help")],
    *[("package_name", name, "Use another name: it is a package.") for name in
      ("torch", "torch_npu", "torch_python", "torch_backend", "sympy", "jinja2", "typing_extensions", "yaml", "numpy",
       "scikit_build_core", "cmake", "pybind11", "socks", "timm")],
    *[("package_name", name, "Use another name: it is a library.") for name in
      ("shm", "gomp", "cuda", "aoti_custom_ops")],
    *[("package_name", name, "Use another name: CMake has this.") for name in
      ("test", "install", "clean", "package", "edit_cache", "rebuild_cache", "torch_cpu_library", "sdk_tests")],
    ("package_name", "quantized", "Use another name: torch has this."),
    ("package_name", "usleep", "Use another name: C++ has this."),
    ("package_name", "tests", "Use another name: the code has it."),
    *[("package_name", name, "Use another name: a script has it.") for name in ("compare", "conftest", "operators")],
    ("device_library", "none", "Invalid choice for 'device_library': 'none' is not in ['emulated', 'external']"),
    ("sdk_name", "", "Type a name, such as acme_sim."),
    *[("sdk_name", name, "Use only a-z, 0-9 and _.") for name in ("acme-sim", "../sim")],
    ("sdk_name", "torch_acme", "Use another name than the package."),
    *[("sdk_name", name, "Use another name: C++ has this.") for name in ("free", "usleep")],
    *[("sdk_name", name, "Use another name: it is a library.") for name in
      ("pthread", "cudart", "shm", "gomp", "cuda")],
    *[("sdk_name", name, "Use another name: CMake has this.") for name in
      ("test", "install", "clean", "all", "help", "package", "edit_cache", "sdk_benchmark", "torch_library")],
    ("sdk_prefix", "", "Type a prefix, such as acmesim."),
    *[("sdk_prefix", name, "Use only a-z and 0-9.") for name in ("Ac", "ac_")],
    ("sdk_prefix", "2ac", "Begin with a letter."),
    *[("sdk_prefix", name, "Use 2 to 12 characters.") for name in ("a", "morethantwelve")],
    *[("sdk_prefix", name, "Use another: a library has this one.") for name in
      ("cu", "cuda", "hip", "str", "mem", "pthread", "acl")],
    *[("description", text, "Type one line of text.") for text in ("", "  ")],
    *[("description", text, "Type one line of plain text.") for text in ("a\nb", "a\tb", "a\u2028b")],
    ("description", "a\\b", "Type it without a backslash."),
    ("description", " a", "Remove the spaces at the ends."),
    ("description", "a" * 201, "Use at most 200 characters."),
    ("author", "", "Type one line of text."),
    ("author", "a\r\nb", "Type one line of plain text."),
    *[("author_email", text, "Type it like me@example.com.") for text in ("", "a@b", 'a"@b.c')],
    ("license", "GPL-3.0", "Invalid choice for 'license': 'GPL-3.0' is not in "
     "['BSD-3-Clause', 'Apache-2.0', 'MIT', 'proprietary']"),
    *[("repository_url", text, "Type it like https://host/path.") for text in
      ("", "git@example.com:a/b", 'https://example.com/"')],
    ("torch_minor", "1.0", f"Invalid choice for 'torch_minor': '1.0' is not in {list(RELEASES)}"),
    *[("num_devices", value, "Type a number from 1 to 64.") for value in (0, 65, -1, "two", "", 2.5, 2.0, True)],
    *[("device_memory", text, "Type a number with M, G or T.") for text in ("4GB", "")],
    *[("device_memory", text, "Type a size from 64M to 1T.") for text in ("1M", "2T")],
    ("features", ["teleport"], f"Invalid choice for 'features': 'teleport' is not in {list(FEATURES)}"),
    *[("code_owners", text, "Type them like @acme/backend @jane.") for text in
      ("acme", "@acme, @jane", "@acme/backend\n* @mallory")],
]  # fmt: skip


def _name(value: object) -> str:
    return re.sub(r"\W+", "-", str(value))[:24]


@pytest.mark.parametrize(("question", "value"), GOOD, ids=_name)
def test_good_answers_are_accepted(answer: Answer, question: str, value: Any) -> None:
    assert answers_of(answer(**{question: value}))[question] == value


@pytest.mark.parametrize(("question", "value", "message"), BAD, ids=_name)
def test_bad_answers_are_refused_with_advice(
    answer: Answer, tmp_path: Path, question: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refusal:
        answer(**{question: value})
    assert str(refusal.value).removeprefix(f"Validation error for question '{question}': ") == message
    assert not (tmp_path / "project").exists()


WIDTH = 80
Render = Callable[..., str]


@pytest.fixture(scope="session")
def jinja(source: Source) -> Render:
    """Renders a default or a validator of copier.yml from answers, as copier does."""
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(source.root),
        undefined=StrictUndefined,
        extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
    )
    environment.globals["pathjoin"] = lambda *parts: "/".join(parts)
    compiled = cache(environment.from_string)
    return lambda question, part, **answers: compiled(source.config[question][part]).render(answers).strip()


def test_refusals_fit_a_line_of_the_terminal() -> None:
    """All but copier's own, of which the prompt shows none: it offers the choices, and calls the rest invalid."""
    own = [(question, message) for question, _, message in BAD if not message.lower().startswith("invalid")]
    shown = [f"Validation error for question '{question}': {message}" for question, message in own]
    assert [text for text in shown if len(text) > WIDTH] == []


def test_every_refusal_is_tried(source: Source) -> None:
    """So that the tests above see every message: each piece of text in a macro is in a refusal that was tried."""
    tree = Environment().parse((source.root / "includes" / "validate.jinja").read_text(encoding="utf-8"))
    pieces = {data.data.strip() for macro in tree.find_all(Macro) for data in macro.find_all(TemplateData)} - {""}
    tried = {message for *_, message in BAD}
    assert {piece for piece in pieces if not any(piece in message for message in tried)} == {
        "Use a new folder: this has files."  # test_a_folder_with_files_is_refused
    }


EVERYWHERE = {"keyword", "c", "cxx", "project"}


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("device_name", {*EVERYWHERE, "in_tree", "python", "torch"}),
        ("package_name", {*EVERYWHERE, "python", "torch", "package", "library", "target", "script"}),
        ("sdk_name", {*EVERYWHERE, "package", "library", "target"}),
        ("sdk_prefix", {"prefix"}),
    ],
)
def test_every_reserved_name_is_refused_in_a_line(
    source: Source, jinja: Render, question: str, kinds: set[str]
) -> None:
    lists = reserved.read(source.root / "includes" / "reserved.jinja")
    others = {"device_name": "zed", "package_name": "torch_zed"}
    messages = {
        name: jinja(question, "validator", **others | {question: name}) for kind in kinds for name in lists[kind]
    }
    assert {name for name, message in messages.items() if not message} == set()
    assert max(map(len, messages.values())) <= WIDTH - len(f"Validation error for question '{question}': ")


def test_defaults_are_valid_whatever_the_names_are(source: Source, jinja: Render) -> None:
    """A default that is refused ends copier's dialogue."""
    lists = reserved.read(source.root / "includes" / "reserved.jinja")
    names = {name for values in lists.values() for name in values}
    devices = {re.sub("^torch_|_backend$|_sim$|_emulator$|sim$", "", name) for name in names} - names
    accepted = [name for name in devices | {"d" * 30} if not jinja("device_name", "validator", device_name=name)]
    assert {"npu", "mlu", "d" * 30} <= set(accepted)
    for device in accepted:
        answers = {"device_name": device}
        for question in ("package_name", "sdk_name", "sdk_prefix", "author_email", "repository_url"):
            answers[question] = jinja(question, "default", **answers)
            assert jinja(question, "validator", **answers) == "", answers


@pytest.mark.parametrize("vendor", ["Meta", "X", "日本", "A" * 40, "0" * 40, "Set Num Interop Threads", "Torch", "."])
def test_the_device_has_a_valid_default(jinja: Render, vendor: str) -> None:
    device = jinja("device_name", "default", vendor_name=vendor)
    assert jinja("device_name", "validator", device_name=device) == ""


@pytest.mark.parametrize(
    ("device", "package", "sdk"),
    [
        ("npu", "npu_backend", "npu_sim"),
        ("acme", "torch_acme", "acme_sim"),
        ("cuda_like", "torch_cuda_like", "cuda_like_sim"),
    ],
)
def test_a_default_is_another_name_where_one_is_taken(questions: Source, device: str, package: str, sdk: str) -> None:
    values = trace(questions, {"vendor_name": "Acme", "device_name": device}).values
    assert (values["package_name"], values["sdk_name"]) == (package, sdk)
    values = trace(questions, {"vendor_name": "Acme", "device_name": device, "package_name": f"{device}_sim"}).values
    assert values["sdk_name"] == f"{device}_emulator"


def test_questions_fit_a_line_of_the_terminal(source: Source) -> None:
    """Copier puts a picture of two columns and a space before the text, questionary puts 5 columns before a choice."""
    for name, question in source.questions.items():
        assert len(question["help"]) <= WIDTH - 4, name
        choices = question.get("choices", [])
        assert all(len(choice) <= WIDTH - 6 for choice in choices if not isinstance(choices, str)), name


def test_a_number_of_devices_may_be_a_number(answer: Answer) -> None:
    """Answers files of older projects hold one."""
    assert answers_of(answer(num_devices=3))["num_devices"] == "3"


FILES = ["f", ".f", "deep/er/f", "deep/.er/f", ".deep/er/.f", "a/b/c/d/e/f", ".github/f", ".gitignore", "a/.git/f"]


@pytest.mark.parametrize("file", FILES, ids=_name)
@pytest.mark.parametrize("folder", ["project", "pro[j]ect"])
def test_a_folder_with_files_is_refused(questions: Source, tmp_path: Path, file: str, folder: str) -> None:
    """Copier itself asks for each file, or overwrites them all with --overwrite."""
    path = tmp_path / folder / file
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"Use a new folder: this has files\.") as refusal:
        render_into(questions, tmp_path / folder)
    assert len(str(refusal.value)) <= WIDTH
    assert [found for found in (tmp_path / folder).rglob("*") if found.is_file()] == [path]


@pytest.mark.parametrize("file", [".git", ".git/HEAD", ".git/refs/heads/main"], ids=_name)
def test_a_folder_may_be_a_repository(questions: Source, tmp_path: Path, file: str) -> None:
    path = tmp_path / "project" / file
    path.parent.mkdir(parents=True)
    path.write_text("git's")
    assert answers_of(render_into(questions, tmp_path / "project"))["vendor_name"] == "Acme"


def test_files_are_looked_for_as_deep_as_those_of_the_template(source: Source) -> None:
    files = [path.relative_to(source.template) for path in source.template.rglob("*") if path.is_file()]
    assert max(len(path.parts) for path in files) <= len(Path("a/b/c/d/e/f").parts)


def test_every_question_is_tried(source: Source) -> None:
    assert set(source.questions) == {question for question, *_ in GOOD} == {question for question, *_ in BAD}


def test_features_are_those_of_the_generator(source: Source) -> None:
    assert set(source.questions["features"]["choices"].values()) == set(FEATURES)


def test_nothing_needs_trust(source: Source) -> None:
    assert not {"_tasks", "_migrations", "_jinja_extensions"} & source.config.keys()
