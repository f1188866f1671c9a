"""Completion scripts of bash, zsh and fish.

They hold the commands and flags as they are declared, so that completing starts no Python. Files are
completed where nothing else fits.
"""

from collections.abc import Sequence

from steelyard.cli.manual.pages import Page


def _tables(pages: Sequence[Page]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return each command's path as typed, and by path the words that may follow."""
    words = [
        ("".join(f" {name}" for name in page.path), [*(row.name for row in page.commands), *page.flags])
        for page in pages
    ]
    return [path for path, _ in words if path], [(path, " ".join(names)) for path, names in words]


_BASH = """# bash completion of steelyard
_steelyard() {{
    local word words path="" current=${{COMP_WORDS[COMP_CWORD]}}
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
            {paths}) path="$path $word" ;;
        esac
    done
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _steelyard steelyard
"""

_ZSH = """#compdef steelyard
_steelyard() {{
    local word choices place=""
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$place $word" in
            {paths}) place="$place $word" ;;
        esac
    done
    case "$place" in
{cases}
    esac
    compadd -- ${{=choices}} || _files
}}
_steelyard "$@"
"""

_FISH = """# fish completion of steelyard
function __steelyard_words
    set -l place ""
    for word in (commandline -opc)[2..-1]
        switch "$place $word"
            case {paths}
                set place "$place $word"
        end
    end
    switch "$place"
{cases}
    end
end
complete -c steelyard -a "(__steelyard_words)"
"""


def bash(pages: Sequence[Page]) -> str:
    """Return the script of bash."""
    paths, words = _tables(pages)
    cases = "\n".join(f'        "{path}") words="{line}" ;;' for path, line in words)
    return _BASH.format(paths="|".join(f'"{path}"' for path in paths), cases=cases)


def zsh(pages: Sequence[Page]) -> str:
    """Return the script of zsh."""
    paths, words = _tables(pages)
    cases = "\n".join(f'        "{path}") choices="{line}" ;;' for path, line in words)
    return _ZSH.format(paths="|".join(f'"{path}"' for path in paths), cases=cases)


def fish(pages: Sequence[Page]) -> str:
    """Return the script of fish."""
    paths, words = _tables(pages)
    cases = "\n".join(
        f"        case \"{path}\"\n            printf '%s\\n' {line}" for path, line in words if line
    )
    return _FISH.format(paths=" ".join(f'"{path}"' for path in paths), cases=cases)
