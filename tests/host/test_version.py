"""The names of the host."""

import toolstile


def test_every_name_of_the_contract_is_one_of_the_host():
    assert {"MarkdownSection", "Tool", "hookimpl"} <= set(dir(toolstile))
    assert not {"errors", "tools"} & set(dir(toolstile))
    assert all(getattr(toolstile, name) is not None for name in dir(toolstile))
