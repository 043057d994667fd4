"""What the numbers, words and settings of a finding are called, in both languages.

`role.ROLE`, `value.NAME` (of `Finding.values`, and of what `Finding.words` are about), `word.WORD`, `setting.NAME`.
"""

from __future__ import annotations

from clearhead.explorer.content import Both
from clearhead.explorer.inspect_methods import METHODS

__all__ = ["VALUE_WORDS"]

_ROLES = {
    "role.previous": Both("previous token", "前一词元"),
    "role.next": Both("next token", "后一词元"),
    "role.position": Both("fixed offset", "固定偏移"),
    "role.diagonal": Both("diagonal", "对角线"),
    "role.sink": Both("sink", "汇聚点"),
    "role.broad": Both("broad", "宽泛"),
    "role.rare-token": Both("rare token", "罕见词元"),
    "role.aligned": Both("aligned", "对齐"),
    "role.stripe": Both("one token (stripe)", "单一词元（竖条）"),
    "role.special-token": Both("special tokens", "特殊词元"),
    "role.mixed": Both("mixed", "混合"),
}

_VALUES = {
    "value.entropy": Both("entropy, nats", "熵（nat）"),
    "value.entropy_share": Both("entropy, share of the largest possible", "熵占最大可能值的比例"),
    "value.sparsity": Both("share of weights above 0.1", "大于 0.1 的权重比例"),
    "value.sparsity_count": Both("weights above 0.1 a row", "每行大于 0.1 的权重数"),
    "value.distance": Both("mean distance, tokens", "平均距离（词元）"),
    "value.confidence": Both("largest weight of a row, mean", "每行最大权重的均值"),
    "value.confidence_without_eos": Both("the same without the end token", "同上，不计结束词元"),
    "value.offset_-2": Both("weight two tokens back", "前两位词元的权重"),
    "value.offset_-1": Both("weight on the previous token", "前一词元的权重"),
    "value.offset_0": Both("weight on the own token", "自身词元的权重"),
    "value.offset_1": Both("weight on the next token", "后一词元的权重"),
    "value.offset_2": Both("weight two tokens on", "后两位词元的权重"),
    "value.mass_bos": Both("weight on the start token", "起始词元的权重"),
    "value.mass_eos": Both("weight on the end token", "结束词元的权重"),
    "value.mass_punctuation": Both("weight on punctuation", "标点的权重"),
    "value.row_error": Both("largest error of a row's sum", "行和的最大误差"),
    "value.row_sum_least": Both("smallest sum of a row", "最小行和"),
    "value.row_sum_most": Both("largest sum of a row", "最大行和"),
    "value.score": Both("score", "得分"),
    "value.baseline": Both("baseline", "基线"),
    "value.threshold": Both("threshold", "阈值"),
    "value.nearest": Both("role that is nearest", "最接近的角色"),
    "value.aligned_chance": Both("aligned: by chance", "对齐：随机水平"),
    "value.aligned_line": Both("aligned: the straight line instead", "对齐：以直线代替"),
    **{
        f"value.aligned_offset_{offset}": Both(
            f"aligned: fixed offset {offset} instead", f"对齐：以固定偏移 {offset} 代替"
        )
        for offset in range(-3, 4)
    },
    "value.role_share": Both("share of sentences with this role", "具有该角色的句子比例"),
    "value.sink_length": Both("relative length of the values of special tokens", "特殊词元的值向量相对长度"),
    "value.importance": Both("head importance |∂L/∂ξ|, nats a token", "头重要性 |∂L/∂ξ|（nat/词元）"),
    "value.within_layer": Both("the same, normalised within its layer", "同上，层内归一化"),
    "value.delta_nll": Both("change of the loss, nats a token", "损失的变化（nat/词元）"),
    "value.worst": Both("the same for the worst pair", "同上，最差的句对"),
    "value.median_tvd": Both("median TVD", "TVD 中位数"),
    "value.mean_tvd": Both("mean TVD", "平均 TVD"),
    "value.max_tvd": Both("largest TVD", "最大 TVD"),
    "value.matched": Both("JSD, heads matched one to one", "JS 散度，头一一匹配"),
    "value.any_heads": Both("JSD, any two heads", "JS 散度，任意两个头"),
    "value.mean_maps": Both("JSD of the mean maps", "平均图之间的 JS 散度"),
    "value.far": Both("predictions with JSD > 0.3", "JSD > 0.3 的预测比例"),
    "value.max_jsd": Both("largest JSD, mean over the predictions", "最大 JS 散度，对预测取均值"),
    "value.joint_jsd": Both("JSD of one set of weights for all predictions", "所有预测共用一组权重时的 JS 散度"),
    "value.tvd": Both("TVD reached", "达到的 TVD"),
    "setting.epsilon": Both("ε", "ε"),
    "setting.seed": Both("seed", "随机种子"),
    "setting.shuffles": Both("shuffles", "打乱次数"),
    "setting.starts": Both("starts", "起点数"),
    "setting.steps": Both("steps", "步数"),
    "setting.rate": Both("learning rate", "学习率"),
    "setting.diversity": Both("diversity", "多样性项"),
    "setting.penalty": Both("penalty", "惩罚系数"),
    "setting.records": Both("records", "记录数"),
    "setting.pairs": Both("pairs", "句对数"),
    "setting.tokens": Both("tokens", "词元数"),
    "setting.tolerance": Both("tolerance", "容许误差"),
}

_WORDS_OF_FINDINGS = {
    "word.short": Both("short", "短"),
    "word.not short": Both("not short", "不短"),
    "word.not measured": Both("not measured", "未测量"),
    "word.predictions nearly unchanged, one at a time": Both(
        "predictions nearly unchanged, one at a time", "逐个预测，几乎不变"
    ),
    "value.offset": Both("offset", "偏移"),
    "value.values": Both("values of special tokens", "特殊词元的值"),
    "value.meaning": Both("meaning", "含义"),
}

_PARTS = {
    "score": Both("score", "得分"),
    "baseline": Both("baseline", "基线"),
    "threshold": Both("threshold", "阈值"),
    "rows": Both("rows asked", "参与的行数"),
}
_RANKS = {"tau": "Kendall τ-b", "rho": "Spearman ρ"}


def _candidate_words() -> dict[str, Both]:
    """What a finding holds of every candidate for a role, and of every method that a head was compared with."""
    found = {}
    for key, role in _ROLES.items():
        for part, words in _PARTS.items():
            name = f"value.{key.removeprefix('role.')}_{part}"
            found[name] = Both(f"{role.en}: {words.en}", f"{role.zh}：{words.zh}")
    for method, about in METHODS.items():
        for rank, name in _RANKS.items():
            found[f"value.{method}_{rank}"] = Both(f"{about.name.en}: {name}", f"{about.name.zh}：{name}")
        predictions = Both(f"{about.name.en}: predictions compared", f"{about.name.zh}：比较的预测数")
        found[f"value.{method}_predictions"] = predictions
    return found


VALUE_WORDS: dict[str, Both] = {**_ROLES, **_VALUES, **_WORDS_OF_FINDINGS, **_candidate_words()}
"""Every name that a finding brings, by its key."""
