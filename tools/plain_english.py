"""Fail on wording that the project does not use, and name what to write instead.

``python tools/plain_english.py [FILE …]`` checks the tracked text files, or those given. Spelling
is codespell's part; this table holds words and phrases that are spelled correctly and read badly.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# what not to write (a regular expression, in any case): what to write
WORDING = {
    r"mend(s|ed|ing)?": "fix",
    r"manners?": "style, conventions or API",
    r"whole numbers? from \d+ on": "a positive integer",
    r"whole numbers?": "integer",
    r"from (0|1|2) on": "a positive integer, or ≥ 0",
    r"up to, not at": "a half-open interval, as in [0, 1)",
    r"stopped to get better": "once validation stops improving",
    r"is nothing that": "unknown command, option or name",
    r"what it is best with": "its best-performing setting",
    r"all tiny": "a tiny run that checks the setup",
    r"(anybody|nobody) listens": "return True if recording is active",
    r"write on from": "generate text from",
    r"from words to": "parse command-line arguments",
    r"likelier": "more likely",
    r"come to the same answer": "agree",
    r"rivals?": "baseline",
    r"store[y]s?": "layer",
    r"the likely reason": "the reason, if it was measured",
    r"it may be that": "what was measured",
    r"in the place of": "instead of",
    r"which is to say": "that is",
    r"goes? on where": "continue from",
    r"(is|are|was|were) asked (of|for) (the|a) (model|layer|network)": "is evaluated",
    r"(model|network|layer|classifier|cell|gate|filter|kernel)s? (that )?"
    r"(answers?|sees?|says?|goes by|go by)": "predicts, depends on, or uses",
    r"ha(s|ve|d) no say": "has no influence, or is ignored",
    r"counts? alike": "have equal weight",
    r"held at (its|their) values?": "treated as constant",
    r"lets? through": "the value of an open gate",
    r"on top of each other": "stacked",
    r"source of truth": "reference implementation",
    r"stays? as (it is|they are)": "is not changed",
    r"that there (is|are) not": "that does not exist",
    r"one (gate|mask|number|row|value) an? (call|edge|layer|node|sequence|unit|window)": "per",
    r"(device|dtype): of the parameters": "a noun, as in 'Device of the parameters'",
    r"white space": "whitespace",
    r"worked out by hand": "computed by hand",
    r"(brought in|in) step (for|with)": "in phase, or aligned",
    r"test_\w*_says?_why\w*": "states the reason",
    r"test_what_(is_no|does_not_fit|cannot)_\w*": "invalid arguments are rejected",
    r"surest of": "most confident",
    r"to choose the epoch": "validation",
    r"turned away": "removed, or refused",
    r"by the clock": "elapsed, or wall-clock",
    r"test_\w*_(goes_on_(to|from)\w*|comes_twice)": "continues, occurs twice",
    r"test_\w*_((is|are)_told(?=\()|asked_for(?=_|\())": "is reported, is requested",
    r"answered the same questions": "predicted the same examples",
    r"is_again|quick_step|fresh_h|obstacles?|surplus": "a name in the field's terms",
    r"of: [A-Z]\w*(\[|,|\))": "a parameter name that says what it holds",
}
CHECKED = (".py", ".md", ".hpp", ".cpp", ".h", ".html", ".toml", ".txt", "Makefile")
_EITHER = "|".join(f"(?P<w{i}>{wrong})" for i, wrong in enumerate(WORDING))
# the letter is looked for first, since most places are no beginning of a word
_PATTERN = re.compile(rf"(?<![a-z])(?=[a-z])(?:{_EITHER})(?![a-z])", re.IGNORECASE)
_ADVICE = list(WORDING.values())
_DOCSTRING = re.compile(r'^\s*r?"""(What|Whether|How|Where)\b', re.MULTILINE)


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, wording and advice for each place that reads badly."""
    for match in _PATTERN.finditer(text):
        advice = next(_ADVICE[int(name[1:])] for name, hit in match.groupdict().items() if hit)
        yield text.count("\n", 0, match.start()) + 1, match[0], advice
    for match in _DOCSTRING.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        yield line, f'"""{match[1]}', "an imperative verb, or a noun for a class"


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True)
    return [Path(name) for name in listed.stdout.split("\0") if name.endswith(CHECKED)]


def main(arguments: list[str]) -> int:
    """Print every finding as ``file:line``; return 1 if there is one."""
    own = Path(__file__).resolve()
    failed = False
    for path in [Path(name) for name in arguments] or _tracked():
        if path.resolve() == own or not path.is_file():
            continue
        for line, wording, advice in findings(path.read_text(encoding="utf-8")):
            print(f"{path}:{line}: {wording!r}: write {advice}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
