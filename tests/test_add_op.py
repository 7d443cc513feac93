"""`torch-backend add-op`: what it writes, and what it refuses. test_add_op_build.py compiles what it writes."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from torch_backend.addop import adding
from torch_backend.addop.registered import kernels
from torch_backend.cli import main
from torch_backend.maintenance.formatting import format_cpp
from torch_backend.maintenance.trees import read_project
from torch_backend.render import Tree
from torch_backend.source import Source

from .conftest import MATRIX, render_into

OPERATORS = (
    "gelu",
    "gelu_backward",
    "relu",
    "sum",
    "amax",
    "arange",
    "full",
    "add.Tensor",
    "topk",
    "uniform_",
    "eye",
    "mm",
    "aten::gelu",
)
NATIVE = "csrc/aten/native"
LIST = "csrc/fallback/operators.def"


def add_op(project: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(main, ["add-op", "--project", str(project), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def rendered(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    answers = MATRIX["very_long"] | {"features": ["docs"]}
    return render_into(source, tmp_path_factory.mktemp("add_op") / "project", **answers)


@pytest.fixture
def fresh(rendered: Path, tmp_path: Path) -> Path:
    """A project without additions, which a test may change."""
    return Path(shutil.copytree(rendered, tmp_path / "project"))


@pytest.fixture(scope="module")
def result(rendered: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tree, str]:
    """A project with additions, what it was before, and what the command said."""
    project = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("added") / "project"))
    done = add_op(project / "csrc", *OPERATORS)
    assert done.exit_code == 0, done.output
    return project, read_project(rendered), done.output


def test_json_lists_what_was_written(fresh: Path) -> None:
    done = add_op(fresh, "gelu", "--json")
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert (printed["project"], printed["python"], printed["built"]) == (str(fresh), sys.executable, False)
    assert printed["next"][1][1:] == ["-m", "pytest", "tests/test_op_gelu.py"]
    (gelu,) = printed["operators"]
    assert {name: gelu[name] for name in ("name", "functions", "kernel", "test", "opinfos", "unserved")} == {
        "name": "gelu",
        "functions": ["gelu", "gelu_", "gelu.out"],
        "kernel": f"{NATIVE}/Gelu.cpp",
        "test": "tests/test_op_gelu.py",
        "opinfos": ["nn.functional.gelu"],
        "unserved": [],
    }
    assert printed["refused"] == {}
    again = add_op(fresh, "gelu", "--json")
    assert again.exit_code == 1
    told = json.loads(again.stdout)
    assert (told["operators"], told["next"], list(told["refused"])) == ([], [], ["gelu"])


def test_each_operator_has_a_kernel_and_a_test(result: tuple[Path, Tree, str]) -> None:
    project, before, output = result
    after = read_project(project)
    stems = (
        "Gelu",
        "GeluBackward",
        "Relu",
        "Sum",
        "Amax",
        "Arange",
        "Full",
        "AddTensor",
        "Topk",
        "Uniform",
        "Eye",
        "Mm",
    )
    tests = (
        "gelu",
        "gelu_backward",
        "relu",
        "sum",
        "amax",
        "arange",
        "full",
        "add_tensor",
        "topk",
        "uniform",
        "eye",
        "mm",
    )
    new = {f"{NATIVE}/{stem}.cpp" for stem in stems} | {f"tests/test_op_{name}.py" for name in tests}
    assert after.keys() - before.keys() == new
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {LIST, "docs/porting.md"}
    assert all(f"wrote {path}" in output for path in new)


SIGNATURES = {
    "Gelu.cpp": [
        "struct Gelu : at::meta::structured_gelu {",
        "  void impl(const at::Tensor& self, c10::string_view approximate, const at::Tensor& out) {",
        "        launchPointwise<scalar_t, scalar_t>(*this, [by_tanh](scalar_t x_) -> scalar_t {",
        "    runReference<at::_ops::gelu_out>(self, approximate, out);",
        "at::Tensor gelu(const at::Tensor& self, c10::string_view approximate) {",
        "  return functional<Gelu>(self, approximate);",
        "at::Tensor& geluInPlace(at::Tensor& self, c10::string_view approximate) {",
        "  return inPlace<Gelu>(self, approximate);",
        "at::Tensor& geluOut(const at::Tensor& self, c10::string_view approximate, at::Tensor& out) {",
        "  return outVariant<Gelu>(out, self, approximate);",
        '  m.impl("gelu_", fallback::hostBody("gelu_", TORCH_FN(geluInPlace)));',
    ],
    "GeluBackward.cpp": ["  return outVariant<GeluBackward>(grad_input, grad_output, self, approximate);"],
    "Relu.cpp": [
        "at::Tensor relu(const at::Tensor& self) {",
        "  return runReference<at::_ops::relu>(self);",
        "at::Tensor& reluInPlace(at::Tensor& self) {",
    ],
    "Sum.cpp": [
        "struct SumDimIntList : at::meta::structured_sum_dim_IntList {",
        "at::Tensor sumDimIntList(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, "
        "std::optional<at::ScalarType> dtype) {",
        '  m.impl("sum.IntList_out", fallback::hostBody("sum.IntList_out", TORCH_FN(sumIntListOut)));',
    ],
    "Arange.cpp": [
        "at::Tensor& arangeStartOut(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, "
        "at::Tensor& out) {",
    ],
    "Full.cpp": [
        "at::Tensor full(at::IntArrayRef size, const at::Scalar& fill_value, std::optional<at::ScalarType> dtype, "
        "std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {",
        "  checkFactoryOptions(layout, pin_memory);",
    ],
    "AddTensor.cpp": [
        "at::Tensor& addTensorInPlace(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {",
    ],
    "Topk.cpp": [
        "std::tuple<at::Tensor, at::Tensor> topk(const at::Tensor& self, int64_t k, int64_t dim, bool largest, "
        "bool sorted) {",
    ],
    "Eye.cpp": [
        "at::Tensor eyeM(int64_t n, int64_t m, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, "
        "std::optional<at::Device> device, std::optional<bool> pin_memory) {",
        "at::Tensor& eyeMOut(int64_t n, int64_t m, at::Tensor& out) {",
    ],
    "Uniform.cpp": [
        "at::Tensor& uniformInPlace(at::Tensor& self, double from, double to, "
        "std::optional<at::Generator> generator) {",
    ],
}


@pytest.mark.parametrize("file", SIGNATURES)
def test_kernels_have_the_signatures_of_the_schemas(result: tuple[Path, Tree, str], file: str) -> None:
    text = (result[0] / NATIVE / file).read_text()
    for line in SIGNATURES[file]:
        assert f"\n{line}\n" in text
    assert "PORTING: " in text
    assert (
        "// To make it native, write the device's code where PORTING says, then register `TORCH_FN(f)` below without"
        in text
    )
    assert text.count("m.impl(") == text.count("fallback::hostBody(")
    assert "namespace very_long_vendor_name::native {" in text
    assert "openreg" not in text


def test_overloads_that_pytorch_makes_of_others_have_no_kernel(result: tuple[Path, Tree, str]) -> None:
    assert "PyTorch computes relu.out from other operators" in result[2]
    assert "relu.out" not in (result[0] / NATIVE / "Relu.cpp").read_text()
    assert "PyTorch computes arange, arange.out, arange.start from other operators" in result[2]
    assert "omitted mm.dtype, mm.dtype_out: the CPU has no kernel" in result[2]


def test_the_list_loses_the_operators_that_got_a_kernel(result: tuple[Path, Tree, str]) -> None:
    project, before, _ = result
    text = (project / LIST).read_text()
    written = {
        schema
        for path in (project / NATIVE).glob("*.cpp")
        if path.name in SIGNATURES or path.name in {"Amax.cpp", "Mm.cpp"}
        for schema in re.findall(r'm\.impl\("([\w.]+)"', path.read_text())
    }
    assert len(written) == 27
    # The lines of operators that were emulated are comments, and no other has changed.
    old = (before[LIST].text or "").splitlines()
    added = [schema for schema in written if f'EMULATED("{schema}", {schema.replace(".", "_")})' in old]
    assert {"gelu", "gelu_backward", "relu", "add.Tensor", "mm.out"} <= set(added)
    assert text.splitlines() == [
        f"// {line}" if any(f'"{schema}"' in line for schema in written) else line for line in old
    ]


def test_written_tests_are_python_with_the_expected_functions(result: tuple[Path, Tree, str]) -> None:
    project = result[0]
    for name in ("gelu", "gelu_backward", "relu", "sum", "amax", "arange", "full", "add_tensor", "topk", "eye"):
        text = (project / f"tests/test_op_{name}.py").read_text()
        functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        assert "test_the_kernel_is_in_its_file" in functions
        assert "test_samples" in functions
        assert "find(" in text
    assert "test_gradients" in (project / "tests/test_op_gelu_backward.py").read_text()
    assert "test_values" not in (project / "tests/test_op_gelu_backward.py").read_text()
    assert '"gelu.default": ["gelu_.default", "gelu.out"],' in (project / "tests/test_op_gelu.py").read_text()


def test_what_is_written_is_formatted(result: tuple[Path, Tree, str]) -> None:
    assert format_cpp(result[0], check=True) > 0
    for command in (["format", "--check"], ["check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."], cwd=result[0], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_porting_page_names_the_new_kernels(result: tuple[Path, Tree, str]) -> None:
    page = (result[0] / "docs" / "porting.md").read_text()
    assert "[csrc/aten/native/Gelu.cpp](../csrc/aten/native/Gelu.cpp), `Gelu`:" in page


def test_the_next_commands_are_printed(result: tuple[Path, Tree, str]) -> None:
    project, _, output = result
    assert f"  cd {project}\n" in output
    assert "-m pip install --no-build-isolation --no-deps --editable ." in output
    assert "-m pytest tests/test_op_gelu.py tests/test_op_gelu_backward.py" in output
    assert "Until then the operator runs on the host, and list-ops calls it a host body." in output


def test_each_refusal_has_its_reason_and_the_others_are_written(fresh: Path) -> None:
    before = read_project(fresh)
    done = add_op(fresh, "gelu", "geluu", "xyzzy_plugh", "linear", "view", "_cudnn_rnn", "sum.out", "torchvision::nms")
    assert done.exit_code == 2
    new = read_project(fresh).keys() - before.keys()
    assert new == {f"{NATIVE}/Gelu.cpp", "tests/test_op_gelu.py"}
    assert "1 of 8 operators got a kernel.\n" in done.stderr
    assert "PyTorch has no operator aten::geluu. Did you mean gelu, " in done.stderr
    assert "PyTorch has no operator aten::xyzzy_plugh. Look it up in torch.ops.aten." in done.output
    assert re.search(
        r"aten::linear needs no kernel, because PyTorch computes it from other operators .*: .*aten::(addmm|mm)",
        done.output,
    )
    assert "uniform_" not in done.output
    assert "aten::view already has a kernel, in csrc/aten/Views.cpp" in done.output
    assert "aten::_cudnn_rnn has no CPU kernel" in done.output
    assert "aten::sum.out needs no kernel, because PyTorch computes it with aten::sum: add that one." in done.output
    assert "torchvision::nms is not one of PyTorch's own operators" in done.output
    assert "Traceback" not in done.output


# Kernels that would be wrong if they computed with the CPU's, or that PyTorch never calls.
UNSAFE = {
    "_to_copy": "copies between devices, so the host may own an operand: PyTorch computes it with aten::_copy_from",
    "copy_": "copies between devices",
    "_foreach_copy_": "copies between devices",
    "is_pinned": "takes a `device` beside a tensor, so the host may own the tensor or the result",
    "zeros_like": "It needs no kernel: PyTorch computes it from aten::zero_.",
    "allclose": "returns no tensor, and needs no kernel: PyTorch computes it from aten::eq.Tensor",
    "is_coalesced": "returns no tensor, and needs no kernel.",
    "_assert_scalar": "takes no tensor and no `device`",
    "mkldnn_convolution": "is for tensors of the CPU alone",
}


def test_operators_that_a_kernel_could_not_answer_for_are_refused(fresh: Path) -> None:
    before = read_project(fresh)
    done = add_op(fresh, *UNSAFE)
    assert done.exit_code == 2
    assert "Nothing was written." in done.output
    assert read_project(fresh) == before
    for name, reason in UNSAFE.items():
        (line,) = [line for line in done.output.splitlines() if line.startswith(f"aten::{name} ")]
        assert reason in line


def test_operators_that_another_kernel_hands_its_operands_on_to_are_refused(fresh: Path) -> None:
    before = read_project(fresh)
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    done = add_op(fresh, "convolution", attention, "geluu")
    assert done.exit_code == 2
    assert "PyTorch has no operator aten::geluu" in done.output
    assert read_project(fresh) == before
    for name, file in (("convolution", "Convolution.cpp"), (attention, "Attention.cpp")):
        assert (
            f"aten::{name} reaches the device through the kernel in csrc/aten/{file}: change that kernel."
            in done.output
        )
    (fresh / "csrc/aten/Convolution.cpp").write_text("// the vendor's own\n")
    done = add_op(fresh, "convolution")
    assert done.exit_code == 2
    assert "PyTorch computes it with aten::convolution_overrideable on this device" in done.output


def test_existing_kernels_are_refused(fresh: Path) -> None:
    before = read_project(fresh)
    done = add_op(fresh, "abs", "empty", "linalg_eig")
    assert done.exit_code == 1
    assert "aten::abs already has a kernel, in csrc/aten/native/Abs.cpp: change that kernel." in done.output
    assert "aten::empty.memory_format already has a kernel, in csrc/aten/Factories.cpp" in done.output
    assert "aten::linalg_eig already has a kernel, in csrc/aten/native/HostOperators.cpp" in done.output
    assert read_project(fresh) == before


def test_which_registrations_are_kernels_of_an_operator(tmp_path: Path) -> None:
    folder = tmp_path / "csrc" / "aten" / "native"
    folder.mkdir(parents=True)
    (folder / "Mine.cpp").write_text("""\
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("gelu", TORCH_FN(gelu));
  // library.impl("silu", TORCH_FN(silu));
  library.impl(
      "aten::gelu.out", withOrigin({Origin::Host, "always on the host"}, TORCH_FN(geluOut)));
}
TORCH_LIBRARY_IMPL(mine, PrivateUse1, m) {
  m.impl("relu", TORCH_FN(relu));
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("tanh", TORCH_FN(tanh));
}
""")
    assert kernels(tmp_path) == dict.fromkeys(["gelu", "gelu.out"], "csrc/aten/native/Mine.cpp")


def test_what_has_a_kernel_is_refused_before_torch_is_asked(
    result: tuple[Path, Tree, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = result[0]
    before = read_project(project)
    monkeypatch.setattr(adding, "describe", lambda *arguments, **options: pytest.fail("torch was asked"))
    done = add_op(project, "gelu", "sum", "add.Tensor", "abs")
    assert done.exit_code == 1
    assert "aten::gelu already has a kernel, in csrc/aten/native/Gelu.cpp: change that kernel." in done.output
    assert "aten::sum already has a kernel, in csrc/aten/native/Sum.cpp" in done.output
    assert "aten::abs already has a kernel, in csrc/aten/native/Abs.cpp" in done.output
    assert read_project(project) == before


def test_one_operator_in_two_words_is_written_once(fresh: Path) -> None:
    before = read_project(fresh)
    done = add_op(fresh, "silu_", "silu", "tanh", "tanh.out")
    assert done.exit_code == 0, done.output
    new = read_project(fresh).keys() - before.keys()
    assert new == {f"{NATIVE}/{stem}.cpp" for stem in ("Silu", "Tanh")} | {
        f"tests/test_op_{name}.py" for name in ("silu", "tanh")
    }


def test_an_operator_and_its_overload_are_one(fresh: Path) -> None:
    done = add_op(fresh, "add", "add.Tensor", "clamp.Tensor", "clamp")
    assert done.exit_code == 1
    file = f"{NATIVE}/ClampTensor.cpp"
    assert f"aten::clamp.Tensor is in {file}, which another name of this call writes" in done.output
    assert (fresh / file).exists()
    assert (fresh / NATIVE / "Add.cpp").exists()
    assert not (fresh / NATIVE / "AddTensor.cpp").exists()
    assert not (fresh / NATIVE / "Clamp.cpp").exists()


def test_random_has_a_test_beside_that_of_the_template(fresh: Path) -> None:
    before = (fresh / "tests/test_random.py").read_text()
    assert add_op(fresh, "random_").exit_code == 0
    assert (fresh / "tests/test_random.py").read_text() == before
    assert '"aten::random_"' in (fresh / "tests/test_op_random.py").read_text()


def test_a_dry_run_writes_nothing(fresh: Path) -> None:
    before = read_project(fresh)
    done = add_op(fresh, "gelu", "geluu", "--dry-run")
    assert done.exit_code == 2
    assert f"would write {NATIVE}/Gelu.cpp" in done.output
    assert "1 of 2 operators would get a kernel." in done.output
    assert read_project(fresh) == before
    assert add_op(fresh, "gelu", "--dry-run", "--build").exit_code == 2


def test_a_users_file_is_not_overwritten(fresh: Path) -> None:
    paths = (f"{NATIVE}/Silu.cpp", "tests/test_op_tanh.py")
    for path in paths:
        (fresh / path).write_text("mine\n")
    before = read_project(fresh)
    done = add_op(fresh, "silu", "tanh")
    assert done.exit_code == 1
    assert all(f"{path} already exists" in done.output for path in paths)
    assert read_project(fresh) == before


def break_page(project: Path) -> None:
    (project / "docs" / "porting.py").write_text("raise SystemExit('no page today')\n")


def break_list(project: Path) -> None:
    (project / LIST).unlink()


def break_helper(project: Path) -> None:
    (project / "csrc" / "aten" / "support" / "Reference.h").unlink()


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (break_page, "cannot be changed: no page today"),
        (break_list, "torch-backend update"),
        (break_helper, "has no csrc"),
    ],
)
def test_a_failure_leaves_nothing_behind(fresh: Path, breaks: Callable[[Path], None], message: str) -> None:
    breaks(fresh)
    before = read_project(fresh)
    done = add_op(fresh, "silu", "sigmoid")
    assert done.exit_code == 1
    assert message in done.output
    assert read_project(fresh) == before


def test_torch_of_another_series_is_refused(fresh: Path) -> None:
    path = fresh / ".copier-answers.yml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"torch_minor": "1.13"}))
    done = add_op(fresh, "silu")
    assert done.exit_code == 2
    assert "installed torch 1.13, and no Python has it" in done.output
    assert "and the project needs 1.13" in done.output
    assert 'pip install "torch==1.13.*" pyyaml' in done.output
    assert "--python" in done.output


def test_a_cpu_kernel_that_crashes_on_samples_does_not_stop_the_command(fresh: Path) -> None:
    """The CPU's batch normalisation reads through null pointers if it is given no statistics."""
    done = add_op(fresh, "native_batch_norm")
    assert done.exit_code == 0, done.output
    assert "wrote tests/test_op_native_batch_norm.py, with PyTorch's samples for native_batch_norm" in done.output
    assert "samples made from the schemas" not in done.output


def test_a_missing_interpreter_is_refused(fresh: Path) -> None:
    done = add_op(fresh, "silu", "--python", str(fresh / "none"))
    assert done.exit_code == 2
    assert f"{fresh / 'none'} is not a Python interpreter" in done.output


def test_outside_of_a_project_it_is_refused(tmp_path: Path) -> None:
    done = add_op(tmp_path, "silu")
    assert done.exit_code == 2
    assert "is not in a project" in done.output
