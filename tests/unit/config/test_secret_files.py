"""Secrets by file and by ``${VARIABLE}``: read, refused if others can read them, never shown."""

import pytest

from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError

SECRET = "a-secret-of-the-admins"


def loaded(tmp_path, text, environ=None):
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    return load(str(file), environ or {}, {})


@pytest.mark.parametrize("option", ["admin.token", "resp.password"])
def test_a_secret_is_read_from_the_first_line_of_its_file(tmp_path, option):
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\nsecond line\n")
    secret.chmod(0o600)
    found = loaded(tmp_path, f'{option}_file = "{secret}"')
    assert found.value(option) == SECRET
    assert SECRET not in repr(found)


def test_a_variable_stands_for_the_directory_of_credentials_or_the_secret_itself(tmp_path):
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o400)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "PASSWORD": SECRET}
    text = 'admin.token_file = "${CREDENTIALS_DIRECTORY}/token"\nresp.password = "${PASSWORD}"'
    found = loaded(tmp_path, text, environ)
    assert (found.config.admin.token, found.config.resp.password) == (SECRET, SECRET)
    assert loaded(tmp_path, 'data = "${PASSWORD}"').config.data == "${PASSWORD}", "no secret"


@pytest.mark.parametrize(
    ("text", "content", "mode", "said"),
    [
        ("admin.token_file = 'FILE'", SECRET, 0o644, "all users of this machine can read FILE"),
        ("admin.token_file = 'FILE'", "", 0o600, "FILE is empty"),
        ("admin.token_file = 'FILE'", "short", 0o600, "must have 16 to 256 printable"),
        ("admin.token_file = 'FILEx'", SECRET, 0o600, "FILEx cannot be read: No such file"),
        (f"admin.token_file = 'FILE'\nadmin.token = '{SECRET}'", SECRET, 0o600, "in addition to"),
        ("admin.token = '${NOT_SET}'", SECRET, 0o600, "no environment variable NOT_SET"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_with_its_line_and_without_the_secret(
    tmp_path, text, content, mode, said
):
    secret = tmp_path / "secret"
    secret.write_text(content)
    secret.chmod(mode)
    with pytest.raises(ConfigProblemsError) as refused:
        loaded(tmp_path, text.replace("FILE", str(secret)))
    assert said.replace("FILE", str(secret)) in str(refused.value)
    assert "line 1: admin.token" in str(refused.value)
    assert SECRET not in str(refused.value)
    if mode == 0o644:
        assert f"chmod 600 {secret}" in str(refused.value)
