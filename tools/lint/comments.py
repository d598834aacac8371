"""Fails on a comment that reads badly because of its layout.

A trailing `///<` stands on the line of the whole member that it describes, starts with a small letter (or a name) and
ends without a full stop; what needs more room, or a second sentence, stands above the member as `///`. A banner takes
one line. `///` is for what others include; a source file's own comments are `//`. What a comment says of shapes, errors
and threads starts a line of its own: `Shapes:`, `Units:`, `Errors:`, `Threads:`, `Source:`.
"""

import re

# Capitalised words that `///<` may start with, since they are names.
NAMES = {
    "Gloo", "Json", "Kaiming", "Kubernetes", "Linux", "Prometheus", "Unix", "Xavier",
    # Values of enums and of Kubernetes fields that a comment starts with.
    "Auto", "Normal", "Pending", "Provided", "Random", "Sampled", "True",
}

CAPITALISED = re.compile(r"[A-Z][a-z]*(?![\w/])")
SECOND_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)[.?!] +[A-Z]")
ENDS_STATEMENT = (";", "{", "}", ",", ":", "(")


def starts_statement(lines, index):
    """Whether the code of a line is the start of its member rather than the rest of one."""
    for line in reversed(lines[:index]):
        text = line.strip()
        if not text or text.startswith(("//", "#")):
            return True
        return re.sub(r"\s*//.*", "", text).endswith(ENDS_STATEMENT)
    return True


def trailing_problems(lines, index):
    code, comment = lines[index].split("///<", 1)
    comment = comment.strip()
    if not code.strip():
        yield "a `///<` goes on from the line above: put the comment above the member, as ///"
        return
    if code.strip().startswith((")", "}", "<", "=", "+", "*", "&", "|", "?", ".")) or not starts_statement(lines, index):
        yield "a `///<` is torn from its member: put the comment above the member, as ///"
    word = CAPITALISED.match(comment)
    if word and word.group() not in NAMES:
        yield "a `///<` starts with a small letter"
    if SECOND_SENTENCE.search(comment):
        yield "a `///<` is one sentence: put the comment above the member, as ///"
    elif comment.endswith("."):
        yield "a `///<` ends without a full stop"


def problems_in(name, text):
    found = []
    lines = text.split("\n")
    for index, line in enumerate(lines):
        said = []
        if "///<" in line:
            said += trailing_problems(lines, index)
        if re.fullmatch(r"\s*//\s*[-=*]{3,}\s*", line):
            said.append("a banner stands on one line with its words: // ---- words")
        comment = re.match(r"\s*///?(?!<)(.*)", line)
        if comment and re.search(r"\S (Shapes|Units|Errors|Threads|Source): ", comment.group(1)):
            said.append("Shapes:, Units:, Errors:, Threads: and Source: start a line")
        if "//" in line and "Threading:" in line:
            said.append("'Threads:' is the word")
        if re.match(r"\s*///", line) and name.endswith((".cpp", ".cu")):
            said.append("`///` is for headers: a source file's own comments are //")
        found += [f"{name}:{index + 1}: {problem}" for problem in said]
    return found
