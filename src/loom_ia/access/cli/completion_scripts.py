"""The words of the command line, written for each shell.

Each script finds the place first: it walks over the words before the one that is written, skipping
the values of options, and each command that it meets leads to another place. The three do the same
thing, each with the means of its shell; bash has no room for the help.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from loom_ia.access.cli.completion_words import Place, Word


def bash(places: Sequence[Place]) -> str:
    """Write the script of bash; it works from version 3.2 on."""
    return _BASH.format(
        commands=_cases(_leading(places)),
        valued=_cases(_valued(places)),
        values="\n".join(_bash_values(places)),
        words="\n".join(map(_bash_words, places)),
    )


def zsh(places: Sequence[Place]) -> str:
    """Write the script of zsh, to be sourced, or kept as `_loom` in a folder of `fpath`."""
    return _ZSH.format(
        commands=_cases(_leading(places)),
        valued=_cases(_valued(places)),
        values="\n".join(_zsh_values(places)),
        words="\n".join(_zsh_words(place) for place in places),
    )


def fish(places: Sequence[Place]) -> str:
    """Write the script of fish."""
    return _FISH.format(
        commands=" ".join(map(_quoted, _leading(places))),
        valued=" ".join(map(_quoted, _valued(places))),
        words="\n".join(line for place in places for line in _fish_words(place)),
    )


SCRIPTS: Final[Mapping[str, Callable[[Sequence[Place]], str]]] = MappingProxyType(
    {"bash": bash, "zsh": zsh, "fish": fish}
)


def _leading(places: Iterable[Place]) -> list[str]:
    """Give each place that another leads to."""
    return [f"{place.name} {name}" for place in places for w in place.commands for name in w.names]


def _valued(places: Iterable[Place]) -> list[str]:
    """Give each option that takes a value, after its place."""
    return [f"{place.name} {name}" for place, word in _taking(places) for name in word.names]


def _taking(places: Iterable[Place]) -> Iterator[tuple[Place, Word]]:
    return ((place, word) for place in places for word in place.options if word.takes)


def _names(words: Iterable[Word]) -> list[str]:
    return [name for word in words for name in word.names]


def _cases(words: Iterable[str]) -> str:
    return "|".join(f'"{word}"' for word in words)


def _flag(place: Place) -> int:
    return int(place.files)


def _bash_words(place: Place) -> str:
    words = " ".join((*_names(place.commands), *place.choices))
    options = " ".join(_names(place.options))
    given = f'words="{words}"; options="{options}"; files={_flag(place)}'
    return f'        "{place.name}") {given} ;;'


def _bash_values(places: Iterable[Place]) -> Iterator[str]:
    for place, word in _taking(places):
        given = f'words="{" ".join(word.choices)}"; files={int(word.files)}'
        yield f"        {_cases(f'{place.name} {name}' for name in word.names)}) {given} ;;"


def _zsh_values(places: Iterable[Place]) -> Iterator[str]:
    for place, word in _taking(places):
        does = "_files" if word.files else f"compadd -- {' '.join(word.choices)}"
        if not word.files and not word.choices:
            does = "_message value"
        case = _cases(f"{place.name} {name}" for name in word.names)
        yield f"    {case}) {does}; return ;;"


def _zsh_words(place: Place) -> str:
    def described(words: Iterable[Word]) -> str:
        return " ".join(
            _posix(f"{name}:{_colons(word.help)}") for word in words for name in word.names
        )

    lines = [f'    "{place.name}")']
    lines.append(f"      commands=({described(place.commands)})")
    lines.append(f"      options=({described(place.options)})")
    lines.append(f"      choices=({' '.join(place.choices)})")
    lines.append(f"      files={_flag(place)} ;;")
    return "\n".join(lines)


def _colons(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _fish_words(place: Place) -> Iterator[str]:
    begin = f"complete -c loom -n {_quoted(f'__loom_at {_quoted(place.name)}')}"
    for word in place.commands:
        for name in word.names:
            yield f"{begin} -a {_quoted(name)} -d {_quoted(word.help)}"
    for word in place.options:
        names = " ".join(
            f"-l {_quoted(n[2:])}" if n.startswith("--") else f"-s {_quoted(n[1:])}"
            for n in word.names
        )
        values = " -r -F" if word.files else " -x" if word.takes else ""
        given = f" -a {_quoted(' '.join(word.choices))}" if word.choices else ""
        yield f"{begin} {names}{values}{given} -d {_quoted(word.help)}"
    if place.choices:
        yield f"{begin} -a {_quoted(' '.join(place.choices))}"
    if place.files:
        yield f"{begin} -F"


def _posix(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _quoted(text: str) -> str:
    """Quote for fish, where a backslash counts inside quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_BASH: Final = """\
# loom completion bash; read it with: eval "$(loom completion bash)"
_loom() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" place="loom" prev="" skip="" word i
    local words="" options="" files=0
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        if [[ "$word" == "=" ]]; then continue; fi
        if [[ -n "$skip" ]]; then skip=""; continue; fi
        case "$place $word" in
            {valued}) skip=1; prev="$word" ;;
            {commands}) place="$place $word" ;;
        esac
    done
    if [[ "$cur" == "=" ]]; then cur=""; fi
    if [[ -n "$skip" ]]; then
        case "$place $prev" in
{values}
        esac
    else
        case "$place" in
{words}
        esac
        if [[ "$cur" == -* || ( -z "$words" && "$files" == 0 ) ]]; then words="$words $options"; fi
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    if [[ "$files" == 1 ]]; then
        compopt -o filenames 2>/dev/null
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -f -- "$cur"))
    fi
}}
complete -F _loom loom"""

_ZSH: Final = """\
#compdef loom
# loom completion zsh; read it with: eval "$(loom completion zsh)"
_loom() {{
  local place=loom prev='' skip='' word
  local -a commands options choices
  local -i i files=0
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    if [[ -n "$skip" ]]; then skip=''; continue; fi
    case "$place $word" in
      ({valued}) skip=1; prev="$word" ;;
      ({commands}) place="$place $word" ;;
    esac
  done
  word="${{words[CURRENT]}}"
  if [[ -z "$skip" && "$word" == --*=* ]]; then
    prev="${{word%%=*}}"; skip=1
    compset -P '*='
  fi
  if [[ -n "$skip" ]]; then case "$place $prev" in
{values}
  esac; return; fi
  case "$place" in
{words}
  esac
  (( $#commands )) && _describe -t commands command commands
  (( $#choices )) && compadd -- $choices
  (( files )) && _files
  [[ "$word" == -* || $#commands -eq 0 ]] && _describe -o -t options option options
}}
if [[ "${{funcstack[1]}}" == "_loom" ]]; then _loom "$@"; else compdef _loom loom; fi"""

_FISH: Final = """\
# loom completion fish; read it with: loom completion fish | source
function __loom_at
    set -l place loom
    set -l skip
    for word in (commandline -opc)[2..]
        if set -q skip[1]
            set skip
        else if contains -- "$place $word" {valued}
            set skip 1
        else if contains -- "$place $word" {commands}
            set place "$place $word"
        end
    end
    test "$place" = "$argv[1]"
end
complete -c loom -e
complete -c loom -f
{words}"""
