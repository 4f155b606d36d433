"""Settings come from the nearest file, and the environment overrides them."""

import pwd
from pathlib import Path

import pytest

from toolstile.settings import Settings, load
from toolstile_hookspecs import ConfigurationError

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold(project):
    settings = load(project, environ={})
    assert settings == Settings()
    assert settings.timeout == 15.0
    assert settings.approval_timeout is None
    assert (settings.approval_expiry, settings.approval_key) == (3600, None)
    assert settings.max_arguments == 16 * 1024 * 1024


def test_everything_can_be_configured(project):
    path = write(
        project / "toolstile.toml",
        """
        block = ["podman"]
        timeout = 2
        approver = "chat"
        approval_timeout = 60.5
        approval_expiry = 600
        approval_key = "0123456789abcdef0123456789abcdef"
        approval_spent = "state/spent.db"
        max_arguments = 1024
        plugin_files = ["mine.py", "/elsewhere/yours.py"]

        [[policies]]
        kind = "quota"
        name = "daily"
        most = 100

        [plugins.tickets]
        url = "https://example.org"
        """,
    )
    assert load(project, environ={}) == Settings(
        path=path,
        block=("podman",),
        timeout=2.0,
        approver="chat",
        approval_timeout=60.5,
        approval_expiry=600.0,
        approval_key=KEY,
        approval_spent=project / "state" / "spent.db",
        max_arguments=1024,
        policies=({"kind": "quota", "name": "daily", "most": 100},),
        plugins={"tickets": {"url": "https://example.org"}},
        plugin_files=(project / "mine.py", Path("/elsewhere/yours.py")),
    )


def test_never_is_written_as_none(project):
    write(project / "toolstile.toml", 'timeout = "none"\napproval_timeout = "none"')
    settings = load(project, environ={})
    assert settings.timeout is None
    assert settings.approval_timeout is None


# --- Which file ----------------------------------------------------------------------------


def test_the_nearest_directory_upward_wins(project):
    write(project / "toolstile.toml", "timeout = 1")
    write(project / "a" / "pyproject.toml", "[tool.toolstile]\ntimeout = 2")
    assert load(project / "a" / "b", environ={}).timeout == 2
    assert load(project, environ={}).timeout == 1


def test_in_one_directory_toolstile_toml_comes_first(project):
    write(project / "pyproject.toml", "[tool.toolstile]\ntimeout = 1")
    write(project / "toolstile.toml", "timeout = 2")
    assert load(project, environ={}).timeout == 2


def test_the_working_directory_is_where_it_starts(project, monkeypatch):
    write(project / "toolstile.toml", "timeout = 1")
    monkeypatch.chdir(project / "a")
    assert load(environ={}).timeout == 1


@pytest.mark.parametrize(
    "text",
    ["[tool.other]\nx = 1", "[tool]\nx = 'toolstile'", "tool = 'toolstile'", "not TOML at all"],
)
def test_a_pyproject_that_says_nothing_of_toolstile_is_passed_over(project, text):
    write(project / "a" / "pyproject.toml", text)
    write(project / "toolstile.toml", "timeout = 1")
    assert load(project / "a", environ={}).timeout == 1


def test_an_empty_file_is_a_configuration(project):
    write(project / "toolstile.toml", "timeout = 1")
    path = write(project / "a" / "toolstile.toml", "")
    assert load(project / "a", environ={}) == Settings(path=path)


def test_a_named_file_is_read_in_place_of_those_found(project):
    write(project / "toolstile.toml", "timeout = 1")
    other = write(project / "a" / "other.toml", "timeout = 2")
    assert load(project, config=other, environ={}).timeout == 2
    named = write(project / "a" / "pyproject.toml", "[tool.toolstile]\ntimeout = 3")
    assert load(project, config=named, environ={}).timeout == 3


def test_a_named_file_must_be_there(project):
    with pytest.raises(ConfigurationError, match=r"away\.toml cannot be read: No such file"):
        load(config=project / "away.toml", environ={})
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load(config=project, environ={})
    empty = write(project / "pyproject.toml", "[project]\nname = 'toolstile'")
    with pytest.raises(ConfigurationError, match=r"has no table \[tool\.toolstile\]"):
        load(config=empty, environ={})


@pytest.mark.parametrize(
    ("name", "content"),
    [("toolstile.toml", "timeout = 5"), ("pyproject.toml", "[tool.toolstile]\ntimeout = 5")],
)
def test_a_file_may_begin_with_a_byte_order_mark(project, name, content):
    (project / name).write_text(content, encoding="utf-8-sig")
    assert load(project, environ={}).timeout == 5


# --- What is wrong with it -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"timeout = ", "Invalid value"),
        (b"timeout = 1\ntimeout = 2", "Cannot overwrite a value"),
        (b'approver = "\xff"', "byte 12 is not UTF-8"),
        (b"block = " + b"[" * 100_000, "nested too deeply|not valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_is_named(project, content, reason):
    (project / "toolstile.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"toolstile\.toml is not valid TOML: .*{reason}"):
        load(project, environ={})


def test_a_tool_table_that_is_none_is_named(project):
    write(project / "pyproject.toml", "[tool]\ntoolstile = 3")
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml: tool\.toolstile: expected a"):
        load(project, environ={})


def test_a_file_that_cannot_be_read_is_named(project, monkeypatch):
    path = write(project / "toolstile.toml", "")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigurationError) as caught:
        load(project, environ={})
    told = f"{path} cannot be read: Permission denied. Make the file readable, or name ano"
    assert str(caught.value).startswith(told)
    with pytest.raises(ConfigurationError, match=r"toml cannot be read: Permission denied\."):
        load(config=path, environ={})


def test_a_file_of_which_nobody_can_tell_whether_it_is_there_is_not_passed_over(project):
    path = project / "a" / "toolstile.toml"
    path.symlink_to(path)
    told = r"toolstile\.toml cannot be read: Too many levels of symbolic links\. Make the file"
    with pytest.raises(ConfigurationError, match=told):
        load(project / "a" / "b", environ={})
    with pytest.raises(ConfigurationError, match=told):
        load(config=path, environ={})
    with pytest.raises(ConfigurationError, match="cannot be read: File name too long"):
        load(config=project / ("x" * 300), environ={})


def test_a_user_without_a_home_directory_is_told_to_write_it_out(project, monkeypatch):
    def unknown(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(
        ConfigurationError, match=r"^~/a\.toml: the home .* is not known\. Set HOME"
    ):
        load(config=Path("~/a.toml"), environ={})
    write(project / "toolstile.toml", 'prompt_overrides = "~/texts.toml"')
    with pytest.raises(ConfigurationError, match=r"^~/texts\.toml: the home directory"):
        load(project, environ={})


def test_a_directory_in_the_place_of_the_file_is_not_passed_over(project):
    write(project / "toolstile.toml", "timeout = 1")
    (project / "a" / "toolstile.toml").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load(project / "a" / "b", environ={})
    assert load(config=project / "toolstile.toml", environ={}).timeout == 1


@pytest.mark.parametrize("name", ["toolstile.toml", "pyproject.toml"])
def test_a_link_to_nothing_in_the_place_of_the_file_is_not_passed_over(project, name):
    write(project / "toolstile.toml", "timeout = 1")
    link = project / "a" / name
    link.symlink_to("gone.toml")
    for given in ({"start": project / "a" / "b"}, {"config": link}):
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read: No such file"):
            load(**given, environ={})


def test_a_fault_names_file_key_what_was_expected_and_what_was_found(project, subtests):
    for text, fault in [
        ("timeouts = 3", r"timeouts: is not a known key; did you mean 'timeout'\?$"),
        ("[ledger]", r"ledger: is not a known key; did you mean \[plugins\.ledger\], the table"),
        ("xyz = 3", r"xyz: is not a known key; remove it \(known: block, "),
        ("[tool.toolstile]\ntimeout = 3", r"\[tool\.toolstile\] has no place here\. Remove that"),
        ("[toolstile]\ntimeout = 3", r"\[toolstile\] has no place here\. Remove that"),
        ("gadget = 3", r"gadget: is not a known key; remove it \(known: block, "),
        ("timeout = 0", "timeout: expected a positive number of seconds, .* found the number 0"),
        ("timeout = true", r'timeout: expected .*or "none" for never, found true'),
        ('timeout = "soon"', "timeout: expected .* found the text 'soon'"),
        ("timeout = {}", "timeout: expected a positive number of seconds"),
        ("timeout = nan", "timeout: expected a positive number of seconds"),
        ("timeout = inf", "timeout: expected a positive number of seconds"),
        ("max_arguments = 0", "max_arguments: expected greater than 0, found the number 0"),
        ("max_arguments = true", "max_arguments: expected a whole number, found true"),
        ("approver = 3", "approver: expected text, found the number 3"),
        ('block = "a"', "block: expected an array, found the text 'a'"),
        ("block = [1]", r"block\[0\]: expected text, found the number 1"),
        ("plugins = 3", "plugins: expected a table, found the number 3"),
        ("plugins.a = []", r"plugins\.a: expected a table, found an array"),
        ("policies = [3]", r"policies\[0\]: expected a table, found the number 3"),
        ("[[policies]]\nname = 'a'", r"policies\[0\]: expected a table with a `kind`"),
        ("[policies]\nkind = 'a'", "policies: expected an array, found a table"),
        ("[[policies]]\nkind = 'a'\nname = 3", r"policies\[0\]: expected a table with a `kind`"),
        ("plugin_files = [3]", r"plugin_files\[0\]: expected a path, as text, found the number 3"),
    ]:
        with subtests.test(text=text, fault=fault):
            path = write(project / "toolstile.toml", text)
            with pytest.raises(ConfigurationError, match=fault) as raised:
                load(project, environ={})
            assert str(raised.value).startswith(f"{path}: ")


def test_all_faults_are_told_at_once(project):
    write(project / "toolstile.toml", "timeout = 0\nblock = 3\nxyz = 1")
    with pytest.raises(ConfigurationError, match=r"block: .*\n.*timeout: .*\n.*xyz: ") as raised:
        load(project, environ={})
    assert raised.value.__cause__ is None


# --- The environment -----------------------------------------------------------------------


def test_the_environment_overrides_the_file(project):
    write(project / "toolstile.toml", 'timeout = 1\napprover = "chat"')
    settings = load(
        project,
        environ={
            "TOOLSTILE_TIMEOUT": "2.5",
            "TOOLSTILE_APPROVER": "5",
            "TOOLSTILE_APPROVAL_TIMEOUT": "9",
            "TOOLSTILE_MAX_ARGUMENTS": "100",
            "OTHER": "x",
        },
    )
    assert (settings.timeout, settings.approver) == (2.5, "5")
    assert (settings.approval_timeout, settings.max_arguments) == (9, 100)
    assert load(project, environ={"TOOLSTILE_TIMEOUT": "none"}).timeout is None


def test_the_key_of_approvals_comes_from_the_environment(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load(
        project / "a",
        environ={
            "TOOLSTILE_APPROVAL_KEY": KEY,
            "TOOLSTILE_APPROVAL_SPENT": "spent.db",
            "TOOLSTILE_APPROVAL_EXPIRY": "60",
        },
    )
    assert (settings.approval_key, settings.approval_expiry) == (KEY, 60)
    assert settings.approval_spent == tmp_path / "spent.db"
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('approval_key = "guessable"', "approval_key: expected a key that cannot be guessed"),
        ('approval_key = {a = "guessable"}', "approval_key: expected a key that cannot be guessed"),
        ('approval_expiry = "none"', "approval_expiry: expected a positive number of seconds"),
        ("approval_expiry = 0", "approval_expiry: expected a positive number of seconds, found"),
        ('approval_spent = "a.db"', "approval_spent is given without approval_key"),
    ],
)
def test_how_approvals_are_sealed_is_checked(project, text, told):
    write(project / "toolstile.toml", text)
    with pytest.raises(ConfigurationError) as caught:
        load(project, environ={})
    assert told in str(caught.value)
    assert "guessable" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_this_process_environment_is_the_default(project, monkeypatch):
    monkeypatch.setenv("TOOLSTILE_TIMEOUT", "7")
    assert load(project).timeout == 7


def test_an_empty_variable_counts_as_unset(project):
    write(project / "toolstile.toml", 'timeout = 1\nblock = ["a"]')
    settings = load(project, environ={"TOOLSTILE_TIMEOUT": "", "TOOLSTILE_BLOCK": ""})
    assert (settings.timeout, settings.block) == (1, ("a",))


def test_file_and_environment_both_switch_off(project):
    write(project / "toolstile.toml", 'block = ["a", "b"]')
    assert load(project, environ={"TOOLSTILE_BLOCK": "b, c ,,d"}).block == ("a", "b", "c", "d")


def test_a_fault_in_a_variable_names_the_variable(project):
    with pytest.raises(ConfigurationError, match=r"^TOOLSTILE_TIMEOUT: timeout: expected"):
        load(project, environ={"TOOLSTILE_TIMEOUT": "soon"})


def test_a_plugins_table_is_overridden_key_by_key(project):
    write(
        project / "toolstile.toml", '[plugins.my-tools]\nurl = "a"\ndepth = { most = 1, least = 0 }'
    )
    settings = load(
        project,
        environ={
            "TOOLSTILE_PLUGINS__MY_TOOLS__URL": "https://example.org",
            "TOOLSTILE_PLUGINS__MY_TOOLS__DEPTH__MOST": "3",
            "TOOLSTILE_PLUGINS__MY_TOOLS__NAMES": '["x", "y"]',
            "TOOLSTILE_PLUGINS__NEW__ON": "true",
        },
    )
    assert settings.plugins == {
        "my-tools": {
            "url": "https://example.org",
            "depth": {"most": 3, "least": 0},
            "names": ["x", "y"],
        },
        "new": {"on": True},
    }
    assert settings.source_of("plugins.my-tools.depth.most") == (
        "TOOLSTILE_PLUGINS__MY_TOOLS__DEPTH__MOST"
    )
    assert settings.source_of("plugins.my-tools.url.inner") == "TOOLSTILE_PLUGINS__MY_TOOLS__URL"
    assert settings.source_of("plugins.my-tools.depth") == str(project / "toolstile.toml")


@pytest.mark.parametrize("name", ["A", "A__", "__A", "A____B"])
def test_a_variable_for_a_plugin_must_name_a_key(project, name):
    variable = f"TOOLSTILE_PLUGINS__{name}"
    with pytest.raises(
        ConfigurationError, match=f"^{variable}: write TOOLSTILE_PLUGINS__NAME__KEY"
    ):
        load(project, environ={variable: "1"})


def test_a_variable_cannot_mend_a_file_that_is_wrong(project):
    write(project / "toolstile.toml", "plugins = 3")
    settings = load(project, environ={"TOOLSTILE_PLUGINS__A__B": "1"})
    assert settings.plugins == {"a": {"b": 1}}


def test_a_working_directory_that_was_removed_is_told_of(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="The working directory is gone"):
        load(environ={})


POLICIES = r"; did you mean \[\[policies\]\]\? \(\[policy\] has only the key default\)\.$"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[policys]]\nkind = 'quota'", rf"policys: is not a known key{POLICIES}"),
        ("[policys]\nkind = 'quota'", rf"policys: is not a known key{POLICIES}"),
        ("polices = []", rf"polices: is not a known key{POLICIES}"),
        ("[[policy]]\nkind = 'quota'", rf"policy: expected a table, found an array{POLICIES}"),
        ("[policies]\nkind = 'quota'", rf"policies: expected an array, found a table{POLICIES}"),
        ("[policy]\nkind = 'quota'", rf"policy\.kind: is not a known key{POLICIES}"),
        ("[policy]\ndefaults = 'deny'", r"policy\.defaults: .*did you mean 'default'\?$"),
        ("[policy]\ndefault = 'no'", r"policy\.default: expected 'allow' or 'deny', found"),
    ],
)
def test_a_misspelt_policy_leads_to_the_table_that_makes_one(tmp_path, text, told):
    file = tmp_path / "toolstile.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=told):
        load(config=file)


def test_optional_plugins_are_those_of_the_file_and_of_the_variable(tmp_path):
    file = tmp_path / "toolstile.toml"
    file.write_text('optional_plugins = ["a"]', encoding="utf-8")
    environ = {"TOOLSTILE_OPTIONAL_PLUGINS": "b, c,a"}
    assert load(config=file, environ=environ).optional_plugins == ("a", "b", "c")
    assert load(config=file, environ={}).optional_plugins == ("a",)
    with pytest.raises(ConfigurationError, match="did you mean TOOLSTILE_OPTIONAL_PLUGINS"):
        load(config=file, environ={"TOOLSTILE_OPTIONAL_PLUGIN": "b"})
