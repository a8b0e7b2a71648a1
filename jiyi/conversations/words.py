"""Words by which a statement is told from what is not one: cues of each kind, and words that say little."""

from __future__ import annotations

import re

from jiyi.text.tokens import stem

#: Words of chat that name nothing: feelings about what somebody said, encouragement, and what any sentence may hold.
_EMPTY = """good great nice cool awesome amazing wonderful fantastic incredible lovely super sweet beautiful gorgeous glad happy excited
    thrilled proud stoked pumped thank thanks appreciate support supportive help helpful grateful thankful mean means lot love
    like enjoy really truly definitely totally absolutely always never keep keeping go goin going push positive inspire inspiring
    inspiration motivate motivation believe dream goal chase hard work worth journey way thing something anything everything feel
    feeling make making get getting got know think thought see look hear heard sound say tell told talk time day life today now
    soon lately back forward take taking come coming came give giving want try trying need let sure yeah wow hey people someone
    everyone world moment special memory joy fun happiness important key stay strong power powerful bring brings well still even
    just also much many more kind bit part share sharing experience agree right true one idea deserve care connection touch bond
    remind remember congrats congratulations luck best better check pic picture photo end matter amazed hope hopefully pretty
    gonna wanna plus though maybe tough rough challenge challenging difficult change difference impact passion passionate progress
    amount result kudos mate buddy bro man dude guy find show showing seem real yes no okay ok place learn learning grow growth
    explore express creative actually basically anyway exactly honestly literally interesting yet meh fine number problem bye step
    steps encourage encouraging encouragement worry worries dedication dedicated must later sorry sometimes rock cheer advice"""
EMPTY = frozenset(stem(word) for word in _EMPTY.split())
NUMBERS = frozenset(map(stem, "one two three four five six seven eight nine ten twice once couple few".split()))
#: Words of the calendar: that two things are on a Friday does not make them the same.
_CALENDAR = """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october
    november december today tomorrow yesterday tonight week weekend month year morning afternoon evening night noon date appointment meeting"""
CALENDAR = frozenset(stem(word) for word in _CALENDAR.split()) | frozenset(
    "周一 周二 周三 周四 周五 周六 周日 周末 星期 下周 上周 这周 本周 下个 上个 个月 明天 后天 昨天 今天 上午 下午 晚上 早上 中午 一下 时候 现在 开始 打算 我们 他们 其实 已经".split()
)

FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'll|i'd|my|me|mine|myself|we|we're|we've|we'll|we'd|our|ours|us)\b|我|咱", re.IGNORECASE)
THIRD_PERSON = re.compile(r"\b(?:he|she|his|her|him)\b|[他她](?!们)", re.IGNORECASE)
SECOND_PERSON = re.compile(r"\b(?:you|your|yours|you're|you've|you'll|you'd|yourself)\b", re.IGNORECASE)
PAST = re.compile(
    r"\b(?:was|were|had|went|did|got|made|took|came|saw|met|bought|found|gave|told|won|lost|began|left|felt|knew|taught|ran|wrote"
    r"|read|built|grew|[a-z]{3,}ed)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|first|second|third|last|next|yesterday|tomorrow|tonight|ago|week|weekend|month"
    r"|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?\b",
    re.IGNORECASE,
)
#: A capital within a sentence: mostly a name.
NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+")

#: What asks, whether or not a question mark stands behind it.
QUESTION_MARK = re.compile(r"[?？]\W*\Z")
ASKING = re.compile(
    r"\A\W*(?:(?:so|and|but|ok|okay|well|also|hey|hi|oh),? )?(?:"
    r"(?:what|who|whom|whose|where|when|why|how|which)(?:'s|'re|'d)? (?:(?:\w+ )?(?:is|are|was|were|do|does|did|can|could|should|would|will|have|has)|to|about|come)\b"
    r"|what's|who's|where's|how's|any (?:idea|tips|advice|suggestions?|chance)"
    r"|(?:do|does|did|is|are|was|were|am|can|could|would|should|will|shall|may|have|has|had)(?:n't)? "
    r"(?:i|you|he|she|it|they|we|this|that|these|those|there|the|a|an|my|your|our|any|anyone|anybody|someone|some)\b)"
    r"|吗\W*\Z|吗[，,]|怎么(?:办|样|做|写|弄|用|走|去|说|解决|处理)|什么(?!的|都|也)|为什么|为啥|哪(?!怕|里都|儿都)|几(?:点|号|个)\W*\Z"
    r"|能不能|可不可以|可以不|要不要|有没有(?!\w*了)|是不是|是否|好不好|行不行|对不对|该不该|如何(?!\w*的)|多少(?!\w*都)",
    re.IGNORECASE,
)
#: Marks that only ask for agreement: what stands before them is stated.
TAG_QUESTION = re.compile(
    r"[,，]\s*(?:right|remember|you know|ok(?:ay)?|isn't it|don't you think|you see"
    r"|对吧|对不对|是吧|记得吧|你记得吗|记得吗|知道吧|你知道的?吧?|好吗|好吧|行吗)\s*[?？]+\W*\Z",
    re.IGNORECASE,
)
#: What is only imagined: the sentence says nothing of what is.
IMAGINED = re.compile(
    r"\A\W*(?:(?:and|but|so|well),? )?(?:if|suppose|supposing|imagine|hypothetically|let's say|assuming|say i (?:had|were|was)|in theory|in another life)\b"
    r"|\bif (?:i|we) (?:were|was|had|could|won|ever)\b|\b(?:i|we)(?:'d| would)\b[^.]{0,80}\bif\b|\bi wish\b|\A\W*wish i\b|\bwhat if\b|\bonly if\b"
    r"|\bwould be (?:nice|great|cool|fun) (?:if|to)\b|想象一下|设想|但愿|真希望|恨不得|假设",
    re.IGNORECASE,
)
#: What is left open: the clause, and in Chinese what follows from it, says nothing of what is.
OPEN = re.compile(
    r"\b(?:might|maybe|perhaps|possibly|if (?:i|we|my|it|he|she|they|there|only)|would(?:n't)? have|could have|unless)\b"
    r"|如果|假如|假使|要是|倘若|若是|万一|比如说我|要不是|就好了|也许|或许|说不定|没准|可能会|可能要|可能去",
    re.IGNORECASE,
)
#: What is told of somebody who does not exist.
FICTION = re.compile(
    r"\bin (?:my|our) (?:\w+ )?(?:novel|story|script|campaign|screenplay|dream)s?\b"
    r"|\A\W*in (?:the|this|a|my|our) (?:\w+ )?(?:novel|story|book|movie|film|game|series|play|dream|show|campaign|script)\b"
    r"|\b(?:the|my|main) (?:protagonist|main character|hero|heroine|narrator|villain|character)\b|\bonce upon a time\b"
    r"|(?:小说|故事|剧本|游戏|梦)(?:里|中)面?(?!的)|主人公|(?:小说|故事|剧本|游戏)[^，。]{0,6}(?:主角|男主|女主|反派)|\A\W*(?:主角|男主|女主|反派)|梦见|梦到",
    re.IGNORECASE,
)
#: Something for the assistant to do, now.
REQUEST = re.compile(
    r"\A\W*(?:(?:ok|okay|so|and|now|then|also|hi|hey|well|thanks|great|alright)[,.!]? )*(?:(?:please|pls|kindly) )*"
    r"(?:(?:can|could|would|will) you |help me|give me|show me|tell me|explain|write|draft|rewrite|translate|summari[sz]e|list|find"
    r"|create|make (?:me|it|a|this|that|the)|generate|suggest|recommend|compare|check (?:this|the|my|if|whether)|fix|correct|proofread|describe|calculate"
    r"|compute|convert|look up|search|google|let's|let us|add|remove|shorten|turn this|continue|go on|try|plan|design|review|refactor"
    r"|implement|debug|edit|format|pretend|act as|play|sing|i(?:'d| would) like (?:you|to know|to ask|some|a (?:recipe|list|summary|poem))"
    r"|i need (?:you|help|some help|a (?:recipe|list|summary|poem|regex|script|function|name))|i want (?:you|to know|to ask)|remind me)\b"
    r"|\A\W*(?:那|好|嗯|然后|现在|麻烦|再|先|顺便)?[，,]?(?:请|麻烦|帮我|帮忙|给我|教我|替我|告诉我|写|翻译|总结|解释|介绍|列|推荐|生成|改|润色|润色一下|举|比较|分析"
    r"|查一?下|查查|搜|算|继续|接着|换|来[一个首段]|讲|说说|说一?下|画|设计|提醒我|给[^，。]{1,4}(?:讲|写|做|推荐|出|起|唱)|看看|看一?下|想想|我想(?:问|知道|了解|请教|听听)|想问|我要你|你来|你先|你再)",
    re.IGNORECASE,
)
#: A wish that holds from now on, and what the assistant is told to keep.
LASTING = re.compile(
    r"\b(?:from now on|in (?:the )?future|always|never|every time|whenever|each time|going forward|by default|in all your"
    r"|stop (?:using|calling|adding|writing|saying)|don't (?:use|call|add|ever|write|give me)|do not (?:use|call)|no (?:more )?(?:emojis?|jargon|bullet)"
    r"|call me|address me|keep (?:your |the )?(?:answers?|replies|responses|explanations|it) (?:short|brief|concise|simple)"
    r"|(?:answer|reply|respond|write|talk|speak)(?: to me)? (?:in|more|with)"
    r"|(?:please )?(?:use|prefer) (?:metric|celsius|british|american|24|plain|simple))\b"
    r"|以后|今后|每次|从现在起|从今以后|一律|永远|总是|别再|不要再|别用|不要用|别叫我|叫我|称呼我|用(?:中文|英文|英语)(?:回|答|跟|和)|(?:回答|回复|说话|讲解|解释)"
    r"(?:尽量|要|请|都|得|可以)?(?:简短|简洁|简单|短|详细|直接|口语|正式|通俗)",
    re.IGNORECASE,
)
TO_KEEP = re.compile(
    r"\A\W*(?:(?:please|and|also|oh|by the way|btw|ok|just)[,.]? )*(?:remember(?: that| this)?|note(?: that)?|keep in mind(?: that)?|don't forget(?: that)?"
    r"|for (?:the record|your information)|fyi|just so you know|you should know(?: that)?|let me tell you)\b[:,]?\s*"
    r"|\A\W*(?:请|帮我|麻烦|你)?(?:要|先)?(?:记住|记一?下|记着|记下来?|记好|别忘了?|备注一?下)[：:，,]?\s*",
    re.IGNORECASE,
)
#: A text handed over to be worked on: what follows is not the user's.
HANDED_OVER = re.compile(
    r"\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|correct|polish|edit|improve|grammar|spell-?check|shorten|analy[sz]e|classify)\b"
    r"[^.!?\n]{0,60}(?::|\n|[\"“「])"
    r"|(?:\A\W*|请|帮我|帮忙|麻烦你?|把)[^。！？\n]{0,12}(?:翻译|润色|改写|总结|概括|校对|改错|修改|缩写|扩写|改成|改得|语法|分析|纠正)[^。！？\n]{0,25}[：:\n“「\"]",
    re.IGNORECASE,
)
ROLE_PLAY = re.compile(
    r"\b(?:role-?play|pretend (?:that |to be |you|i|we)|act as|let's play|play the role|imagine (?:that )?(?:you are|you're|i am|i'm|we are|we're)"
    r"|you are (?:now )?(?:a|an|the) \w+(?: \w+)? and i(?:'m| am)|i'll be (?:a|an|the|your) \w+(?: \w+)?,? (?:and )?you)\b"
    r"|角色扮演|扮演|假装|假扮|(?:我们|咱们)?来演|你(?:来)?当[^，。]{1,12}[，,]?我(?:来)?当|我演|你演|假设你是",
    re.IGNORECASE,
)
ROLE_PLAY_END = re.compile(
    r"\b(?:end (?:of )?(?:the )?(?:role-?play|scene|game)|back to reality|out of character|ooc|stop (?:the )?(?:role-?play|pretending|playing)"
    r"|okay,? (?:that|it) was fun|enough (?:role-?play|of that)|game over|seriously now|in real life|for real)\b"
    r"|不演了|不玩了|演完了?|结束(?:扮演|角色|游戏)|玩够了|回到现实|说正经的|言归正传|现实(?:里|中)|出戏",
    re.IGNORECASE,
)
#: Words of somebody else, between marks; titles of works are short and have no verb of saying before them.
QUOTED = re.compile(r"[\"“「『][^\"”」』]{0,400}[\"”」』]")
SAYING = re.compile(
    r"\b(?:says?|said|saying|quotes?|quoted|goes|wrote|writes|writing|reads?|line|lyrics?|song|sentence|phrase|text|message|poem|tweet|article|review)\b"
    r"|说|写|道|讲|歌词|台词|这句|一句|原文|念|唱|引用|回复|消息|短信|评论",
    re.IGNORECASE,
)
REPORTED = re.compile(
    r"\A\W*(?:the |this |an? )?(?:article|book|movie|film|song|author|character|podcast|report|study|paper|review|tweet|poem|proverb|legend|news)s?"
    r"(?: \w+){0,3} (?:says?|said|claims?|claimed|goes|reads?|tells?)\b|\A\W*(?:as )?the saying goes\b|\baccording to\b"
    r"|\A\W*(?:文章|书|新闻|报道|歌词?|电影|俗话|古人|网上|广告|评论|据|有人|谚语|诗)(?:里|上|中)?(?:都|常)?(?:说|写|讲|唱|道)|\A\W*(?:据说|听说|传说|俗话说|常言道)",
    re.IGNORECASE,
)
#: Trouble with a tool or a task: kept with what solved it, as an experience, not as a fact of the user.
TROUBLE = re.compile(
    r"\b(?:error|exception|traceback|bug|crash(?:es|ed|ing)?|fail(?:s|ed|ing|ure)?|doesn't work|does not work|isn't working|not working|won't (?:start|load|open|build|compile|connect|boot|run)"
    r"|stuck|hangs?|hanging|freez(?:es|ing)|froze|timeouts?|tim(?:ed?|es|ing) out|broken|broke|keeps? (?:\w+ing|breaking)|slow(?:er)?|leak(?:s|ing)?|conflict|can't (?:connect|install|log in|build|open|import|find|reach)"
    r"|cannot (?:connect|install|log in|build|open|import|reach)|unreachable|out of memory|oom|deadlock|flaky|segfault|refused|denied|500|502|503|504|404)\b"
    r"|报错|出错|错误|异常|崩溃|崩了|失败|卡住|卡死|卡顿|太慢|很慢|变慢|超时|连不上|打不开|装不上|起不来|启动不了|跑不(?:起来|通|动)|不工作|不生效|没反应|死锁|内存(?:溢出|泄漏|不足)|耗尽|丢(?:包|数据|消息)|冲突|坏了|登不上|进不去",
    re.IGNORECASE,
)
#: It ended well, or not.
SOLVED = re.compile(
    r"\b(?:that (?:worked|fixed it|did it|solved it|helped)|it works(?: now)?|works (?:now|again|fine now|like a charm)|(?:is|it's|that's|got it) (?:fixed|solved|working)(?: now)?"
    r"|fixed (?:it|the|that|by)|solved (?:it|the|that|by)|resolved|(?:the )?(?:problem|issue|error|bug|crash)\w*(?: \w+)? (?:is |was )?(?:gone|solved|fixed|disappeared|went away)"
    r"|did the trick|no more (?:errors?|crash\w*|timeouts?)|up and running|now it (?:runs|works|builds|starts))\b"
    r"|(?:解决|搞定|修好|修复|弄好|好使|恢复)(?:了|啦)|就好了|就行了|没问题了|可以了|能(?:用|跑|连|打开|启动)了|正常了|不报错了|管用|有效|跑通了|通过了|成功了?|好了",
    re.IGNORECASE,
)
FAILED = re.compile(
    r"\b(?:didn't (?:help|work|fix)|did not (?:help|work|fix)|doesn't help|no luck|still (?:broken|failing|fails|the same|crashes|not|slow|an? error|get)|gave up|to no avail|made (?:it|things) worse)\b"
    r"|没(?:用|有用|效果|解决|搞定|修好)|不管用|还是(?:不行|报错|一样|失败|慢|卡|超时|连不上|不)|依然|无效|放弃了|更(?:糟|慢|严重)了",
    re.IGNORECASE,
)
PARTLY = re.compile(
    r"\b(?:partly|partially|mostly works|better but|helped a (?:bit|little)|somewhat|for now|workaround|half)\b|部分|好一(?:些|点)|缓解|暂时|勉强|凑合|临时",
    re.IGNORECASE,
)
