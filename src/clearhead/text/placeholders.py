"""Find what stands in interface strings for something else: `{name}`, `%s`, `<b>`, `&amp;` and their like.

The expressions look for the forms of the common formats and no others: Python and .NET braces, ICU and mustache,
Ruby `%{name}`, shell and JavaScript `${name}`, printf with positions and names, XML and HTML tags and entities.
Every repetition is bounded or consumes characters that nothing after it can match, so that the time grows in
proportion to the text.
"""

import re

__all__ = ["PLACEHOLDER", "find_placeholders", "strip_placeholders"]

PLACEHOLDER = re.compile(
    r"""
      [$%\#]?\{\{?                                 # {name} {0} {} {{name}} ${name} %{name} #{name}
        \ ?[\w.$@\#-]{0,64}                        #   what it stands for
        (?:![rsa])?(?::[^{}\s]{0,32})?             #   {value!r:>10.2f}
        \ ?\}\}?
    | %%                                           # a per cent sign written for printf
    | (?<![0-9])%                                  # but not "100%discount"
        (?:\([\w.-]{1,64}\)|[0-9]{1,2}\$)?         #   %(name)s %1$s
        [-+\#0]{0,4}(?:[0-9]{1,4}|\*)?             #   flags, width
        (?:\.(?:[0-9]{1,4}|\*))?                   #   precision
        (?:hh|h|ll|l|q|L|j|z|t)?                   #   length
        [diouxXeEfFgGcsaArp@]
    | </?[A-Za-z][^<>]{0,256}>                     # <b> </b> <a href="…"> <br/>
    | &(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});
    """,
    re.VERBOSE,
)
"""One placeholder."""


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a text, in their order, each as it is written.

    >>> find_placeholders("Hi {name}, <b>%d</b> of 100 % &amp; 20% off")
    ['{name}', '<b>', '%d', '</b>', '&amp;']
    """
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def strip_placeholders(text: str) -> str:
    """The text with a space in the place of each placeholder, so that the words beside it stay apart."""
    return PLACEHOLDER.sub(" ", text)
