import time

import pytest

from clearhead.data.scripts import ScriptRule, chinese_form, script_counts


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("Latn", "Привет, как дела сегодня?"),
        ("Latn", "我们今天去哪里吃饭？"),
        ("Cyrl", "This sentence was never translated at all."),
        ("Hans", "This sentence was never translated at all."),
        ("Jpan", "This sentence was never translated at all."),
        ("Hans", "これはまだ翻訳されていません"),
        ("Kore", "これはまだほんやくされていません"),
        ("Grek", "Αυτό in a long sentence that is all but English, as you can see"),
    ],
)
def test_a_text_in_another_script_is_foreign(script, text):
    assert ScriptRule(script).foreign(text)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("Latn", "Das ist die Ärztin, naïve Œuvre"),
        ("Latn", "The word 你好 means hello"),
        ("Latn", "ＦＵＬＬ ＷＩＤＴＨ ＬＡＴＩＮ ＬＥＴＴＥＲＳ"),
        ("Hans", "使用 Home Assistant Cloud 登录"),
        ("Hans", "Home Assistant"),
        ("Hans", "https://www.home-assistant.io/integrations/a_very_long_page"),
        ("Hans", "{custom_integration_domain} {another_placeholder_name}"),
        ("Hans", "123 456 %, … 2024-11-30 12:00:00"),
        ("Jpan", "これは漢字とカタカナです"),
        ("Jpan", "日本語"),
        ("Cyrl", "Установить Home Assistant Operating System"),
        ("Kore", "한국어 漢字 문장입니다"),
        ("", "Что угодно"),
        ("Xxxx", "Что угодно"),
    ],
)
def test_names_code_and_the_right_script_are_not(script, text):
    assert not ScriptRule(script).foreign(text)


def test_letters_are_counted_by_script_and_signs_threefold():
    assert script_counts("abcДД 我 かカ 1!") == {"L": 3, "C": 2, "H": 3, "J": 6}
    assert script_counts("abcÄ") == {"L": 4}
    assert script_counts("µ ª ½ 𝐀") == {}  # signs that belong to no script


def test_the_two_ways_to_write_chinese_are_told_where_they_differ():
    assert chinese_form("我们说这个") == "Hans"
    assert chinese_form("我們說這個") == "Hant"
    assert chinese_form("我們说") == ""
    assert chinese_form("我") == chinese_form("abc") == ""


@pytest.mark.parametrize("unit", ["a", "a ", "我", "a_", "{", "<a", "a@", "http://", "/ "])
def test_time_grows_with_the_text(unit):
    def seconds(size: int) -> float:
        text = (unit * size)[:size] + "é"
        best = 9.0
        for _ in range(3):
            start = time.process_time()
            ScriptRule("Cyrl").foreign(text)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(200_000) <= 3 * seconds(100_000) + 0.02
