"""An agent as a folder: which file says what, what Markdown and YAML mean, what is refused."""

from pathlib import Path

import pytest

from loom_ia.graph.folder import MAX_BYTES, AgentFolder, UnreadableFolder, load_folder
from loom_ia.graph.prompt import Identity


def folder_of(root: Path, **files: str | bytes) -> AgentFolder:
    """Write Markdown files by name, then load the folder; `a__b` is `a/b`."""
    for name, content in files.items():
        put(root / f"{name.replace('__', '/')}.md", content)
    return load_folder(root)


def put(path: Path, content: str | bytes) -> Path:
    """Write one file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def fault_of(root: Path, **files: str | bytes) -> UnreadableFolder:
    """Load a folder that must be refused, and give the error, which is a ValueError."""
    with pytest.raises(UnreadableFolder) as caught:
        folder_of(root, **files)
    assert isinstance(caught.value, ValueError)
    return caught.value


def test_sl01_a_whole_agent(tmp_path: Path) -> None:
    """Every file of the folder is found in its place."""
    script = put(tmp_path / "skills/deploy/scripts/run.sh", "#!/bin/sh")
    agent = folder_of(
        tmp_path,
        SOUL="You are Ada.\n\n## Values\nBe brief.\n",
        IDENTITY="Born in 1815.\n",
        PROFILES="# Profiles\n## brief\nOne line.\n\n## full\nAll of it.\n### more\n",
        HEARTBEAT="Check the queue.\n",
        skills__deploy__SKILL="---\nname: deploy\ndescription: Ship it\n---\nRun it.\n",
        skills__search__SKILL="Query.\n",
    )
    assert agent.identity.core == "You are Ada."
    assert agent.identity.extended == "## Values\nBe brief.\n\nBorn in 1815."
    assert agent.system_prompt == "You are Ada.\n\n## Values\nBe brief.\n\nBorn in 1815."
    assert agent.identity.raw == agent.system_prompt
    assert agent.profiles == {"brief": "One line.", "full": "All of it.\n### more"}
    assert agent.health_check == "Check the queue."
    assert [skill.name for skill in agent.skills] == ["deploy", "search"]
    assert (agent.skills[0].body, agent.skills[0].scripts) == ("Run it.", (str(script),))


def test_an_empty_folder_is_an_empty_agent(tmp_path: Path) -> None:
    """Nothing is required."""
    assert load_folder(tmp_path) == AgentFolder(Identity(""), "", {}, (), None)
    assert folder_of(tmp_path, CLAUDE=" \n", HEARTBEAT="\n", PROFILES="") == load_folder(tmp_path)
    assert load_folder(str(tmp_path)).health_check is None


def test_sl03_agents_md(tmp_path: Path) -> None:
    """Without CLAUDE.md the identity is AGENTS.md."""
    agent = folder_of(tmp_path, AGENTS="You help.\n", SOUL="ignored")
    assert (agent.identity.core, agent.identity.extended) == ("You help.", "")
    assert agent.system_prompt == "You help.\n"


def test_sl04_claude_md_goes_before_all(tmp_path: Path) -> None:
    """With CLAUDE.md the other identities are not read."""
    agent = folder_of(tmp_path, SOUL="soul", IDENTITY="identity", AGENTS="agents", CLAUDE="claude")
    assert agent.identity == Identity("claude", "", "claude")


def test_a_blank_claude_md_counts_for_nothing(tmp_path: Path) -> None:
    """A file of blanks is as good as none."""
    assert folder_of(tmp_path, CLAUDE="\n \n", AGENTS="agents").identity.core == "agents"


def test_sl06_front_matter(tmp_path: Path) -> None:
    """Name and description are read from the front matter, and the body stays without it."""
    text = "---\nname: ship\ndescription: Ship it\nlicense: MIT\n---\n\nDo.\n\n---\nMore.\n"
    (skill,) = folder_of(tmp_path, skills__deploy__SKILL=text).skills
    assert (skill.name, skill.description, skill.body) == ("ship", "Ship it", "Do.\n\n---\nMore.")


def test_sl07_soul_is_cut_at_its_first_heading(tmp_path: Path) -> None:
    """Before the heading is the core, from it on the extended identity."""
    agent = folder_of(tmp_path, SOUL="# Ada\nCore.\n## More\nRest.")
    assert agent.identity.core == "# Ada\nCore."
    assert agent.identity.extended == "## More\nRest."


def test_sl09_all_sections_of_claude_md_are_kept(tmp_path: Path) -> None:
    """The extended identity has every section; a file that begins with one has no core."""
    agent = folder_of(tmp_path, CLAUDE="## A\none\n## B\ntwo\n")
    assert (agent.identity.core, agent.identity.extended) == ("", "## A\none\n## B\ntwo")


def test_sl10_soul_and_identity_without_headings(tmp_path: Path) -> None:
    """SOUL is the core, and IDENTITY the extended identity, headings and all."""
    agent = folder_of(tmp_path, SOUL="soul", IDENTITY="identity")
    assert agent.identity == Identity("soul", "identity", "soul\n\nidentity")
    (tmp_path / "SOUL.md").unlink()
    assert load_folder(tmp_path).identity == Identity("", "identity", "identity")


def test_w87_a_skill_without_a_name_takes_its_folders(tmp_path: Path) -> None:
    """A name that is missing, empty or null is the folder's."""
    agent = folder_of(
        tmp_path,
        skills__a__SKILL="---\ndescription: x\n---\nbody",
        skills__b__SKILL="---\nname: ''\n---\nbody",
        skills__c__SKILL="---\nname:\n---\nbody",
        skills__d__SKILL="---\n---\nbody",
    )
    assert [skill.name for skill in agent.skills] == ["a", "b", "c", "d"]


def test_w87_two_skills_of_one_name_are_refused(tmp_path: Path) -> None:
    """The error names both files."""
    fault = fault_of(tmp_path, skills__a__SKILL="---\nname: b\n---\nx", skills__b__SKILL="y")
    assert str(tmp_path / "skills/a/SKILL.md") in str(fault)
    assert str(tmp_path / "skills/b/SKILL.md") in str(fault)


def test_two_profiles_of_one_name_are_refused(tmp_path: Path) -> None:
    """The error names both lines."""
    fault = fault_of(tmp_path, PROFILES="## a\nx\n## b\n## a ##\n")
    assert (fault.file.name, fault.line) == ("PROFILES.md", 4)
    assert "the profile a is on line 1 already" in str(fault)


def test_a_profile_needs_a_name(tmp_path: Path) -> None:
    """A heading without a title is no name."""
    assert fault_of(tmp_path, PROFILES="\n##\ntext").line == 2


def test_w88_front_matter_is_real_yaml(tmp_path: Path) -> None:
    """Quotes are taken off, blocks are read, and what looks like a number stays as written."""
    quoted = '---\nname: "ship: it"\ndescription: |\n  First.\n\n  ---\n  Last.\n---\nbody'
    folded = "---\nname: 1.10\ndescription: >-\n  one\n  line\ntools: [a, {b: c}]\n---\nbody"
    first, second = folder_of(tmp_path, skills__a__SKILL=quoted, skills__b__SKILL=folded).skills
    assert (first.name, first.description) == ("ship: it", "First.\n\n---\nLast.")
    assert (second.name, second.description) == ("1.10", "one line")


@pytest.mark.parametrize(
    ("front", "line", "says"),
    [
        ("name: x\n", 1, "does not end"),
        ("name: ok\ndescription: 'open\n---\n", 3, "not valid YAML"),
        ("name: ok\n\tdescription: x\n---\n", 3, "not valid YAML"),
        ("name: a\nx: 1\nname: b\n---\n", 4, "name stands twice"),
        ("x: 1\nname: [a, b]\n---\n", 3, "name is a text"),
        ("- name\n---\n", 2, "lines such as name"),
        ("x: " + "[" * 5000 + "\n---\n", 1, "nested too deep"),
        ("x: \x01\n---\n", 1, "not valid YAML"),
        ("x: " + "y" * 70_000 + "\n---\n", 1, "more than 64000 characters"),
    ],
)
def test_malformed_front_matter_is_refused(
    tmp_path: Path, front: str, line: int, says: str
) -> None:
    """The error names the file and the line, and what is wrong."""
    fault = fault_of(tmp_path, skills__a__SKILL=f"---\n{front}body\n")
    assert fault.file == tmp_path / "skills/a/SKILL.md"
    assert fault.line == line
    assert f"SKILL.md:{line}: " in str(fault)
    assert says in str(fault)


def test_a_tag_of_yaml_builds_nothing(tmp_path: Path) -> None:
    """A front matter cannot make an object."""
    text = "---\nname: a\nx: !!python/object/apply:os.system ['false']\n---\nbody"
    assert folder_of(tmp_path, skills__a__SKILL=text).skills[0].name == "a"


@pytest.mark.parametrize(
    "text",
    [
        "```\n## no\n```",
        "~~~\n## no\n~~~",
        "````md\n```\n## no\n```\n````",
        "~~~~\n```\n~~~\n## no\n~~~~~",
        "```\n~~~\n## no\n```",
        "   ```\n## no\n  ```  \ntext",
        "```\n    ```\n## no\n```",
        "```\n``` py\n## no\n```",
        "- ```\n  ## no\n  ```",
        "1. - ~~~\n     ## no\n     ~~~",
        "para\n\n    ## no",
        "\t## no",
        "<!--\n## no\n-->",
        "<pre class='x'>\n\n## no\n</pre>",
        "# no",
        "### no",
        "##no",
        "\\## no",
        "#\u00a0# no",
    ],
)
def test_w89_what_is_no_heading_is_text(tmp_path: Path, text: str) -> None:
    """A mark in code or in a comment does not cut; the heading after it does."""
    agent = folder_of(tmp_path, CLAUDE=f"start\n\n{text}\n\n## Yes\nend")
    assert agent.identity.core == f"start\n\n{text}"
    assert agent.identity.extended == "## Yes\nend"


@pytest.mark.parametrize(
    "text",
    [
        "  ## Yes",
        "##\tYes",
        "##",
        "`` ` ``\n## Yes",
        "``` a`b\n## Yes",
        "- ```\n\n## Yes",
        "<prefix\n## Yes",
    ],
)
def test_w89_what_is_a_heading_cuts(tmp_path: Path, text: str) -> None:
    """What only looks like the beginning of code hides nothing."""
    extended = folder_of(tmp_path, CLAUDE=f"start\n{text}\nend").identity.extended
    assert extended == f"{text.splitlines()[-1]}\nend".strip()


def test_a_fence_that_is_not_closed_goes_to_the_end(tmp_path: Path) -> None:
    """As in Markdown, what follows an open fence is code."""
    assert folder_of(tmp_path, CLAUDE="a\n```\n## no").identity.extended == ""


def test_titles_lose_their_closing_marks(tmp_path: Path) -> None:
    """Marks after a title are no part of it, unless they touch it."""
    agent = folder_of(tmp_path, PROFILES="##   a b  ##  \n1\n## C#\n2\n## é:x\n3")
    assert agent.profiles == {"a b": "1", "C#": "2", "é:x": "3"}


def test_a_profile_keeps_headings_in_code(tmp_path: Path) -> None:
    """Code in a profile may have marks of headings."""
    agent = folder_of(tmp_path, PROFILES="## a\n```\n## not a profile\n```\n## b\n")
    assert list(agent.profiles) == ["a", "b"]


def test_w90_long_lines_are_read(tmp_path: Path) -> None:
    """A line has no limit of its own, whatever it is made of, and is read in no time."""
    lines = ["x" * 200_000, "## " + "a " * 200_000 + "#", "`" * 200_000 + " `", "- " * 200_000]
    agent = folder_of(tmp_path, PROFILES="## first\n" + "\n".join(lines) + "\n## last\nend")
    assert len(agent.profiles) == 3
    assert agent.profiles["last"] == "end"


def test_line_ends_of_windows_and_a_mark_of_utf8(tmp_path: Path) -> None:
    """A file saved by another editor says the same."""
    agent = folder_of(
        tmp_path,
        CLAUDE=b"\xef\xbb\xbfcore\r\n\r\n## more\r\nrest\r\n",
        skills__a__SKILL=b"\xef\xbb\xbf---\r\nname: b\r\n---\r\none\r\ntwo\r\n",
    )
    assert (agent.identity.core, agent.identity.extended) == ("core", "## more\nrest")
    assert (agent.skills[0].name, agent.skills[0].body) == ("b", "one\ntwo")


@pytest.mark.parametrize("name", ["CLAUDE", "PROFILES", "HEARTBEAT", "skills__a__SKILL"])
def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path, name: str) -> None:
    """The error names the file and the line."""
    fault = fault_of(tmp_path, **{name: b"ok\n\xe9t\xe9"})
    assert (fault.file.stem, fault.line) == (name.rsplit("__", maxsplit=1)[-1], 2)


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    """A file of five megabytes is read, and one byte more is not."""
    assert len(folder_of(tmp_path, CLAUDE="x" * MAX_BYTES).system_prompt) == MAX_BYTES
    assert "CLAUDE.md has more than 5000000" in str(fault_of(tmp_path, CLAUDE="x" * 5_000_001))


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    """What is there but cannot be read is not passed over."""
    (tmp_path / "AGENTS.md").mkdir()
    assert "AGENTS.md is not a file" in str(fault_of(tmp_path))


@pytest.mark.parametrize(
    "link",
    [
        "CLAUDE.md",
        "skills",
        "skills/a",
        "skills/a/SKILL.md",
        "skills/a/scripts",
        "skills/a/references/x",
    ],
)
def test_a_link_that_leads_out_is_refused(tmp_path: Path, link: str) -> None:
    """Nothing outside of the folder is read or listed, whatever the link replaces."""
    outside = tmp_path / "outside"
    put(outside / "SKILL.md", "secret")
    root = tmp_path / "agent"
    if not link.endswith(("skills", "skills/a", "SKILL.md")):
        put(root / "skills/a/SKILL.md", "body")
    target = outside / "SKILL.md" if link.endswith((".md", "x")) else outside
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(target)
    assert f"{root / link} is a link that leads out" in str(fault_of(root))


def test_a_link_inside_is_followed(tmp_path: Path) -> None:
    """A folder may share a file with itself, and be a link as a whole."""
    root = tmp_path / "agent"
    put(root / "AGENTS.md", "shared")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "alias").symlink_to(root)
    assert load_folder(tmp_path / "alias").identity.core == "shared"


@pytest.mark.parametrize("target", ["CLAUDE.md", "missing.md"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, target: str) -> None:
    """A broken link is a mistake, not a file that is missing."""
    (tmp_path / "CLAUDE.md").symlink_to(target)
    assert "leads nowhere" in str(fault_of(tmp_path))


def test_files_of_a_skill_are_listed_in_order(tmp_path: Path) -> None:
    """Scripts and references are paths, sorted; folders in them are not."""
    skill = tmp_path / "skills/a"
    for name in ("scripts/b.py", "scripts/a.sh", "scripts/sub/c.py", "references/r.md"):
        put(skill / name, "x")
    (found,) = folder_of(tmp_path, skills__a__SKILL="body").skills
    assert found.scripts == (str(skill / "scripts/a.sh"), str(skill / "scripts/b.py"))
    assert found.references == (str(skill / "references/r.md"),)


def test_folders_without_a_skill_are_passed_over(tmp_path: Path) -> None:
    """A file in the folder of skills, a folder without SKILL.md and a blank one are none."""
    put(tmp_path / "skills/README", "x")
    put(tmp_path / "skills/notes/todo.txt", "x")
    assert folder_of(tmp_path, skills__blank__SKILL=" \n").skills == ()


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    """The error says whether the path is missing or is a file."""
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load_folder(tmp_path / "missing")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        load_folder(put(tmp_path / "file", "x"))
