"""A call runs a method and puts its answer into a result."""

import decimal

import mpmath
import pytest
from toolstile_bfcl.store import BackendStore

from toolstile_hookspecs import ToolValidationError

FILES = "GorillaFileSystem"


@pytest.fixture
def files():
    return BackendStore([FILES], {}).branch(None, None)


def test_an_answer_becomes_the_value(tools, run, files):
    result = run(tools(FILES)["pwd"], {}, files)
    assert result.success
    assert result.value == {"current_working_directory": "//"}


def test_no_answer_is_a_success_without_a_value(tools, run, files):
    result = run(tools(FILES)["touch"], {"file_name": "a.txt"}, files)
    assert result.success
    assert result.value is None


def test_an_error_of_the_backend_is_a_failure_with_its_text(tools, run, files):
    result = run(tools(FILES)["cat"], {"file_name": "none.txt"}, files)
    assert not result.success
    assert "none.txt" in result.message


def test_an_integer_stays_one_where_a_number_is_due(tools, run):
    branch = BackendStore(["MathAPI"], {}).branch(None, None)
    result = run(tools("MathAPI")["add"], {"a": 1, "b": 2}, branch)
    assert result.value == {"result": 3}
    assert isinstance(result.value["result"], int)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [({}, "file_name"), ({"file_name": 1}, "file_name"), ({"file_name": "a", "b": 1}, "b")],
)
def test_wrong_arguments_are_refused_before_the_method_runs(tools, run, files, arguments, fault):
    with pytest.raises(ToolValidationError, match=fault):
        run(tools(FILES)["touch"], arguments, files)


def test_precisions_are_put_back(tools, run):
    branch = BackendStore(["MathAPI"], {}).branch(None, None)
    before = mpmath.mp.dps, decimal.getcontext().prec
    math = tools("MathAPI")
    logarithm = run(math["logarithm"], {"value": 8, "base": 2, "precision": 40}, branch)
    root = run(math["square_root"], {"number": 2, "precision": 40}, branch)
    assert logarithm.value == {"result": 3.0}
    assert root.value["result"] == pytest.approx(2**0.5)
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


def test_only_what_sets_the_precision_of_the_process_runs_alone(tools):
    alone = [name for name, tool in tools("MathAPI").items() if tool.concurrency == "serial"]
    assert alone == ["logarithm"]
