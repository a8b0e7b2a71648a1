"""What the user's messages tell about them in general, by rules (ZC-18, ZC-58, ZC-60, ZC-61)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from jiyi.conversations import words as cue
from jiyi.conversations.types import PROFILE_ENTRIES, Message, ProfileSignals, Style
from jiyi.text.splitting import sentences
from jiyi.text.words import keywords_ranked, normalise

#: Characters of a message that are read.
READ_CHARS = 4_000
MAX_WORD_CHARS = 60

#: The seed's industries with the words that show each, in both languages; the first that fits counts.
INDUSTRIES: dict[str, str] = {
    "healthcare": r"\b(?:hospital|clinic|patients?|nurse|surgeon|ward)\b|医院|医疗|患者|病房|护士|门诊|临床",
    "education": r"\b(?:school|classroom|students?|curriculum|teach(?:er|ing)|kindergarten)\b|学校|教学|课堂|学生|教师|备课|教育",
    "finance": r"\b(?:bank|trading|portfolio|accounting|audit|invoice|fintech)\b|银行|金融|投资|会计|审计|财务|证券|基金",
    "legal": r"\b(?:law firm|attorney|lawsuit|contract law|court|paralegal)\b|律师|律所|诉讼|法院|法务|合同审查",
    "manufacturing": r"\b(?:factory|assembly line|production line|cnc|supply chain)\b|工厂|车间|产线|生产线|制造|供应链",
    "retail": r"\b(?:shop|store|e-commerce|customers?|inventory|online store)\b|电商|门店|零售|店铺|进货|库存",
    "software": r"\b(?:code|deploy|backend|frontend|api|database|python|javascript|kubernetes|docker|repository|developer|software)\b"
    r"|代码|部署|后端|前端|接口|数据库|程序员|开发|软件|服务器",
    "agriculture": r"\b(?:farm|crops?|harvest|livestock|orchard)\b|农场|农田|种植|养殖|果园|收成",
    "design": r"\b(?:designer|figma|typography|illustration|ux)\b|设计师|配色|排版|插画|海报",
    "media": r"\b(?:journalist|newsroom|podcast|video editing|newsletter)\b|记者|编辑部|短视频|剪辑|公众号|播客",
}
_INDUSTRIES = {name: re.compile(pattern) for name, pattern in INDUSTRIES.items()}

#: The words of each style of communication (ZC-60), the first that fits counts.
_STYLES: dict[Style, re.Pattern[str]] = {
    "concise": re.compile(r"\b(?:briefly|(?:keep it|be) (?:short|brief|concise)|short answers?|tl;?dr|in one sentence|to the point)\b|简洁|简短|简单说"),
    "detailed": re.compile(r"\b(?:in (?:more )?detail|step by step|elaborate|thorough|at length)\b|详细|展开说|多说点"),
    "formal": re.compile(r"\b(?:formal(?:ly)?|professional(?:ly)?|official(?:ly)?)\b|正式|专业|官方"),
    "casual": re.compile(r"\b(?:casual(?:ly)?|relaxed|no need to be formal)\b|随意|轻松|随便"),
}
_EXPERTISE = {
    "beginner": re.compile(r"\b(?:i'm new to|i am new to|beginner|never used|just started learning)\b|新手|小白|初学|刚开始学|没接触过|入门"),
    "expert": re.compile(r"\b(?:years of experience|senior|i've been (?:doing|using|writing) .{1,30} for (?:\d+|ten|many) years|expert)\b|资深|多年经验|年经验|专家|老手"),
}
_ROLE = re.compile(
    r"\b(?:i'm|i am|i work as) (?:an?|the) (?P<en>(?:[\w-]+ ){0,2}(?:engineer|developer|programmer|teacher|nurse|doctor|lawyer|designer|manager|student|chef"
    r"|artist|writer|journalist|accountant|architect|analyst|scientist|researcher|professor|consultant|freelancer|photographer|founder|farmer|director))\b"
    r"|我(?:现在)?(?:是|当|做)(?:一?[名个位])?(?P<zh>[^，。的\s]{0,8}(?:工程师|程序员|老师|教师|护士|医生|律师|设计师|经理|学生|厨师|画家|作家|记者|会计|建筑师|分析师"
    r"|研究员|教授|顾问|摄影师|司机|农民|翻译|创始人|店长|编辑|运营|销售|公务员|研究生))"
)
_USES = re.compile(
    r"\b(?:i|we) (?:always |usually |mostly |prefer to )?(?:use|work with|prefer|switched to|code in|write in) (?P<en>[A-Z][\w+#.-]*(?: [A-Z][\w+#.-]*)?)"
    r"|我(?:们)?(?:一直|平时|习惯|主要|都|更喜欢|改)?(?:用|使用|在用)(?:的是)?\s?(?P<zh>[A-Za-z][\w+#.-]{1,30}|飞书|钉钉|企业微信|微信|石墨|语雀|剪映)"
)


def profile_signals(messages: Sequence[Message], since: int = 0) -> ProfileSignals:
    """The signals in the user's messages from ``since`` on; the newest first in lists."""
    said = [message.text[:READ_CHARS] for number, message in enumerate(messages) if number >= since and message.role == "user"]
    told = [text for text in said if not cue.HANDED_OVER.search(text) and not cue.ROLE_PLAY.search(text)]
    lowered = [normalise(text) for text in told]
    own = [
        sentence
        for text in told
        for sentence in sentences(text)
        if not cue.IMAGINED.search(sentence) and not cue.QUESTION_MARK.search(sentence)
    ]
    roles = [(match["en"] or match["zh"]).strip() for sentence in own if (match := _ROLE.search(normalise(sentence)))]
    tools = [match["en"] or match["zh"] for sentence in own for match in _USES.finditer(sentence)]
    pains = [sentence.strip() for sentence in own if cue.TROUBLE.search(sentence)]
    topics = [word for text in reversed(told) for word in keywords_ranked(text)[:2] if not word.isdigit()]
    return ProfileSignals(
        industry=_first(_INDUSTRIES, " ".join(map(normalise, own))),
        role=roles[-1][:MAX_WORD_CHARS] if roles else None,
        expertise_level=_first(_EXPERTISE, " ".join(lowered)),
        communication_style=next((style for style in get_args(Style) if any(_STYLES[style].search(text) for text in lowered)), None),
        recent_topics=_newest(topics),
        pain_points=_newest([pain[:500] for pain in reversed(pains)]),
        preferred_tools=_newest(list(reversed(tools))),
    )


def _first(patterns: dict[str, re.Pattern[str]], text: str) -> str | None:
    return next((name for name, pattern in patterns.items() if pattern.search(text)), None)


def _newest(words: list[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.strip()][:PROFILE_ENTRIES]
