"""The field failure cases as data: tests/golden/cases/*.json (see tests/data/README.md).

Each file has variants; a variant imports files as the run "case", one `import` after the other (`says`: patterns
of what it prints; `code`: its exit code when that is not 0), and asks questions. A question is either a client
command (its -o json answer) or an HTTP path.
What is expected is given by paths into the answer:
    name.name        the field of an object
    list[2]          an element
    list[step=3]     the one element whose field has this value; list[a=1,b=2] for two fields
    list[*]          every element: the rest of the path is taken of each
    list[#]          the length
A name with other characters than letters, digits and _ stands in quotes. An expected {"matches": ...} is a
regular expression.
"""

import json
import math
import re
import unittest

from harness import DATA, TESTS, EndToEnd, wait_until

TOKEN = re.compile(r'\.?(?:(?P<name>\w+)|"(?P<quoted>[^"]+)"|\[(?P<inside>[^]]+)\])')


def look_up(value, path):
    """The part of `value` that `path` names; KeyError or IndexError where there is none."""
    while path:
        token = TOKEN.match(path)
        if not token:
            raise ValueError(f"cannot read the path {path!r}")
        path = path[token.end() :]
        inside = token["inside"]
        if inside is None:
            value = value[token["name"] or token["quoted"]]
        elif inside == "#":
            value = len(value)
        elif inside == "*":
            return [look_up(element, path) for element in value]
        elif "=" in inside:
            wanted = [condition.split("=", 1) for condition in inside.split(",")]
            found = [element for element in value if all(str(element[key]) == text for key, text in wanted)]
            if len(found) != 1:
                raise KeyError(f"{len(found)} elements with {inside}")
            value = found[0]
        else:
            value = value[int(inside)]
    return value


def same(found, expected):
    """Equality; floating-point numbers may differ in the last digits, as sums in another order do."""
    if isinstance(expected, dict) and set(expected) == {"matches"}:
        return isinstance(found, str) and re.search(expected["matches"], found) is not None
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return math.isclose(found, expected, rel_tol=1e-12, abs_tol=0)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


class Golden(EndToEnd):
    """Filled with one test per variant below."""

    def check_variant(self, variant):
        collector = self.start_collector()
        for step in variant["import"]:
            files = [DATA / file for file in step["files"]]
            text = self.cli(collector, "import", "--run", "case", *files, code=step.get("code", 0))
            for pattern in step.get("says", []):
                self.assertRegex(text, pattern)
        for question in variant["ask"]:
            with self.subTest(question.get("get") or question["command"]):
                self.check_question(collector, question)

    def check_question(self, collector, question):
        """The import is durable when it ends, but what is shown follows it by a moment: hence the wait."""
        differences = {}

        def answered():
            if "get" in question:
                answer = collector.get(question["get"])
            else:
                command = [DATA / word if word.endswith(".toml") else word for word in question["command"]]
                answer = self.cli_json(collector, *command)
            differences.clear()
            for path, expected in question["expect"].items():
                try:
                    found = look_up(answer, path)
                except (KeyError, IndexError, TypeError) as error:
                    found = repr(error)
                if not same(found, expected):
                    differences[path] = {"found": found, "expected": expected}
            return not differences

        try:
            wait_until("the expected answer", answered, deadline_s=5)
        except TimeoutError:
            self.fail(json.dumps(differences, indent=1))


def add_tests():
    for file in sorted((TESTS / "golden" / "cases").glob("A*.json")):
        for variant in json.loads(file.read_text())["variants"]:
            name = "test_" + re.sub(r"\W+", "_", f"{file.stem} {variant['name']}")
            setattr(Golden, name, lambda self, variant=variant: self.check_variant(variant))


add_tests()
if not any(name.startswith("test_") for name in vars(Golden)):
    raise RuntimeError("no golden case was found")

if __name__ == "__main__":
    unittest.main()
