#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks comments: each begins with its subject, and no sentence has more than 30 words.

    tools/check_comments.py [FILE ...]
    tools/check_comments.py --self-test

Reads comments and docstrings of C++ and Python; adjacent lines count as one. A sentence ends at a full stop,
a question mark, an empty line, an item of a list, or before lines that are indented as code.
"""
import ast
import io
import re
import sys
import tokenize

import tree

MOST_WORDS = 30
BEGINNING = re.compile(r"(of|who|whose|what|those|as of|the same)\b(?!`)", re.I)
PIECE = re.compile(r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)
LIST_ITEM = re.compile(r"([-*]|\d+[.)]|\(\w+\))\s")
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)[.!?][)\"'`]*(?:\s+|$)")
SKIPPED = re.compile(r"SPDX-License|NOLINT|clang-format|namespace\b|https?://|noqa|pragma: ")


class Comment:
    """A comment: the number of its first line, and its lines without comment marks. `doc`: it has three slashes."""

    def __init__(self, line, column, alone, lines, doc=False):
        self.line, self.column, self.alone, self.lines, self.doc = line, column, alone, lines, doc


def put(comments, comment):
    """Appends a comment, or its line to the last one, if that is adjacent, in the same column and of the same kind."""
    last = comments[-1] if comments else None
    if last and comment.alone and (last.line + len(last.lines), last.column, last.doc) == (comment.line, comment.column, comment.doc):
        last.lines += comment.lines
    else:
        comments.append(comment)


def cpp_comments(text):
    """Returns the comments of a source. Adjacent lines in one column are one comment."""
    text = re.sub(r"(?<=\d)'(?=\d)", "_", text)  # the ' in 1'000 does not begin a character literal
    comments = []
    line, start, seen = 1, 0, 0
    for match in PIECE.finditer(text):
        token = match.group(0)
        line, seen, start = line + text.count("\n", seen, match.start()), match.start(), text.rfind("\n", 0, match.start()) + 1
        column, alone = match.start() - start, not text[start:match.start()].strip()
        if token.startswith("/*"):
            comments.append(Comment(line, column, alone, [re.sub(r"^\s*\*+ ?", "", part) for part in token[2:-2].strip("*!").split("\n")]))
        elif token.startswith("//"):
            put(comments, Comment(line, column, alone, [re.sub(r"^//[/!]?<? ?", "", token)], token.startswith("///")))
    return comments


def python_comments(text):
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            put(comments, Comment(line, column, not token.line[:column].strip(), [re.sub(r"^#:? ?", "", token.string)]))
    for node in ast.walk(ast.parse(text)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node):
            comments.append(Comment(node.body[0].lineno, 0, True, ast.get_docstring(node).split("\n")))
    return comments


def sentences_of(lines):
    """Yields (line offset, sentence) of a comment's prose. Tables and indented code are skipped."""
    sentence, first, in_item = [], 0, False
    for offset, line in enumerate([*lines, ""]):
        bare = line.strip()
        in_item = bool(LIST_ITEM.match(bare)) or (in_item and line.startswith("  "))
        code = line.startswith("  ") and not in_item
        breaks = not bare or code or LIST_ITEM.match(bare) or "|" in bare or bare.startswith((">>>", "@", "-- "))
        if breaks and sentence:
            yield first, " ".join(sentence)
            sentence = []
        if not bare or code or "|" in bare or bare.startswith(">>>"):
            continue
        bare = LIST_ITEM.sub("", bare, count=1) if LIST_ITEM.match(bare) else bare
        at = 0
        for end in SENTENCE_END.finditer(bare):
            piece = bare[at:end.end()].strip()
            if piece:
                if not sentence:
                    first = offset
                yield first, " ".join([*sentence, piece])
            sentence, at = [], end.end()
        if bare[at:].strip():
            if not sentence:
                first = offset
            sentence.append(bare[at:].strip())


def words_of(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


def comments_of(name, text):
    return python_comments(text) if name.endswith(".py") else cpp_comments(text)


def faults_in(name, text):
    for comment in comments_of(name, text):
        lines = list(comment.lines)
        while lines and (not lines[0].strip() or SKIPPED.search(lines[0])):
            lines.pop(0)
            comment.line += 1
        if not lines:
            continue
        if match := BEGINNING.match(lines[0].strip().lstrip("\"'(")):
            yield comment.line, f"begins with \"{match.group(0)}\": begin with the subject, then a verb"
        for offset, sentence in sentences_of(lines):
            count = len(words_of(sentence))
            if count > MOST_WORDS:
                yield comment.line + offset, f"a sentence of {count} words (at most {MOST_WORDS}): {sentence[:60]}..."


def self_test():
    def found(text, name="a.cc"):
        return [f"{line}: {fault.split(':')[0].split(' (')[0]}" for line, fault in faults_in(name, text)]

    for word in ("Of", "Who", "Whose", "What", "Those", "As of", "The same", "of"):
        wanted = [f'1: begins with "{word}"']
        for text in (f"// {word} it.\nint a;", f"/// {word} it", f"int a;  // {word} it", f"/* {word} it */",
                     f"/// {word} it\n/// goes on.\n"):
            assert found(text) == wanted, (text, found(text))
        assert found(f"# {word} it\n", "a.py") == wanted and found(f'"""{word} it."""\n', "a.py") == wanted
    assert found("// Offers it. Of those, two. Whole.\n// What follows is no beginning.\n// of it") == []
    assert found('const char* a = "// Of it"; auto b = R"(// Of)"; int c = 1\'000;  // fine\n') == []
    assert found("// SPDX-License-Identifier: Apache-2.0\n// Of it.\n") == ['2: begins with "Of"']
    assert found("int a;  // fine\nint b;  // of it\n") == ['2: begins with "of"']
    assert found("int a;  // goes on\n        // of it\n") == []

    def sentence(count):
        return " ".join(["word"] * count)

    assert found(f"// {sentence(30)}.\n") == [] and found(f"// {sentence(31)}.\n") == ["1: a sentence of 31 words"]
    assert found(f"// Short.\n// {sentence(20)}\n// {sentence(11)}.\n") == ["2: a sentence of 31 words"]
    assert found(f"// {sentence(20)}.\n// {sentence(11)}, e.g. 3.5 of it.\n") == []
    assert found(f"// {sentence(20)}\n//\n// {sentence(20)}\n") == [] and found(f"// {sentence(20)}\n// - {sentence(20)}\n") == []
    assert found(f"// {sentence(9)}:\n//   code({sentence(40)});\n// {sentence(9)}\n") == []
    assert found(f"/* {sentence(20)}\n * {sentence(20)} */") == ["1: a sentence of 40 words"]
    assert found(f'def f():\n    """Fine.\n\n    {sentence(20)}\n    {sentence(20)}.\n    """\n', "a.py") == ["4: a sentence of 40 words"]
    assert found(f"x = 1  # {sentence(31)}\n", "a.py") == ["1: a sentence of 31 words"]


def check():
    files = [word for word in sys.argv[1:] if not word.startswith("--")]
    for name in files or tree.written(*tree.DEVICE_OR_HOST, ".c", ".py"):
        for line, fault in faults_in(name, tree.text_of(name)):
            yield f"{name}:{line}: {fault}"


if __name__ == "__main__":
    sys.exit(tree.run("comments", check, self_test))
