"""What Markdown in the field has beyond CommonMark: admonitions with indented bodies, and footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, reference
from markdown_it.token import Token

INDENT = 4  # of the lines that belong to an admonition or a footnote
ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?|===)[ \t]+(\S.*)")  # `!!! note "Title"`, `??? tip`, `=== "Tab"`
FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]:[ \t]*")
CITED = re.compile(r"\[\^([^\]\s]+)\]")


def add_rules(parser: MarkdownIt) -> None:
    """Teach *parser* the rules of this file."""
    parser.block.ruler.at("reference", _reference, {"alt": []})
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
    parser.block.ruler.before("code", "admonition", _admonition, interrupts)
    parser.block.ruler.before("code", "footnote", _footnote, interrupts)


def _reference(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Link definitions are no text, but a footnote looks like one and is."""
    return not FOOTNOTE.match(_line(state, start_line)) and reference(state, start_line, end_line, silent)


def _admonition(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    opening = ADMONITION.match(_line(state, start_line))
    if opening is None or state.is_code_block(start_line):
        return False
    end = _indented_end(state, start_line + 1, end_line)
    if end > start_line + 1 and not silent:
        state.push("paragraph_open", "p", 1)
        words = state.push("inline", "", 0)
        words.content, words.children = opening[1].replace('"', ""), []
        state.push("paragraph_close", "p", -1)
        state.push("admonition_open", "", 1)
        _read_indented(state, start_line + 1, end)
        state.push("admonition_close", "", -1)
    return end > start_line + 1


def _footnote(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    opening = FOOTNOTE.match(_line(state, start_line))
    if opening is None or state.level or state.is_code_block(start_line):
        return False
    if not silent:
        state.push("footnote_open", "", 1).info = opening[1]
        end = start_line + 1
        while end < end_line and (_line(state, end)[:1].isalnum() or _is_indented(state, end)):
            end += 1
        _read(state, start_line, end)  # now in a footnote, so the line is a paragraph
        _read_indented(state, end, _indented_end(state, end, end_line))
        state.push("footnote_close", "", -1)
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _is_indented(state: StateBlock, line: int) -> bool:
    return not state.isEmpty(line) and state.sCount[line] - state.blkIndent >= INDENT


def _indented_end(state: StateBlock, line: int, end_line: int) -> int:
    """The end of the indented lines from *line* on, blank ones between them too."""
    end = line
    while line < end_line and (state.isEmpty(line) or _is_indented(state, line)):
        line += 1
        end = end if state.isEmpty(line - 1) else line
    return end


def _read_indented(state: StateBlock, start_line: int, end_line: int) -> None:
    state.blkIndent += INDENT
    _read(state, start_line, end_line)
    state.blkIndent -= INDENT


def _read(state: StateBlock, start_line: int, end_line: int) -> None:
    line_max, state.lineMax = state.lineMax, end_line
    state.md.block.tokenize(state, start_line, end_line)
    state.lineMax, state.line = line_max, end_line


def beside_citations(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with each footnote moved under the block that cites it first; one never cited stays."""
    blocks = list(_blocks(tokens))
    notes = {block[0].info: block for block in reversed(blocks) if block[0].type == "footnote_open"}
    moved: set[str] = set()
    groups: list[tuple[str, list[list[Token]]]] = []
    for block in blocks:
        label = block[0].info if notes.get(block[0].info) is block else ""
        group = [block]
        for citing in group if not label else ():  # grows while it is read: a footnote may cite another
            cited = dict.fromkeys(name for name in _cited(citing) if name in notes and name not in moved)
            cited.pop(citing[0].info, None)  # a second definition of a footnote does not cite the first
            moved.update(cited)
            group += [notes[name] for name in cited]
        groups.append((label, group))
    return [token for label, group in groups if label not in moved for block in group for token in block]


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _cited(block: Sequence[Token]) -> Iterator[str]:
    for token in block:
        for child in token.children or ():
            if child.type == "text":
                yield from CITED.findall(child.content)
