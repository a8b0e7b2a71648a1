"""Every memory is searched for words of health as it is stored; those from before are searched here.

Only memories that have some are written: the new column's default is in the catalogue.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

#: As they were at this revision, for PostgreSQL, to which a Chinese character is a letter like any other.
WORDS = (
    r"allerg|anaphyla|epi-?pen|intoleran|coeliac|celiac|过敏|不耐受|忌口|(?<![a-z])(?:diagnos[a-z]*|asthma[a-z]*|"
    r"diabet[a-z]*|epilep[a-z]*|hypertens[a-z]*|blood pressure|cancer|tumou?r|arthritis|migraines?|adhd|"
    r"autis[a-z]*|depress[a-z]*|anxiety|bipolar|anaemi[a-z]*|anemi[a-z]*|pregnan[a-z]*|hiv|hepatitis|thyroid|"
    r"heart (?:condition|disease|attack)|pacemaker|stroke|blood type|colou?r-?blind|deaf|"
    r"wheelchair)(?![a-z])|确诊|诊断|哮喘|糖尿病|癫痫|高血压|低血压|癌|肿瘤|关节炎|偏头痛|抑郁|焦虑症|贫血|怀孕|肝炎|甲状腺|甲亢|甲减|心脏病|起搏器|中风|血型|"
    r"色盲|痛风|残疾|(?<![a-z])(?:insulin|inhalers?|medications?|medicines?|antidepressants?|antibiotics?|"
    r"blood thinners?|warfarin|metformin|statins?|\d{1,4} ?mg|prescri(?:bed|ption)s?|vegans?|"
    r"vegetarians?|pescatarians?|kosher|halal|(?:gluten|dairy|sugar|salt)[- ]free|blind|"
    r"hard of hearing|hearing aids?|prosthe[a-z]{1,6}|crutches|disab(?:led|ility|ilities)|"
    r"dyslexi[a-z]{1,3})(?![a-z])|胰岛素|[吃服用]药|降[压糖]药|抗抑郁药|抗生素|吃素|素食|纯素|清真|轮椅|失明|失聪|助听器|听障|视障|盲人|(?<![a-z])(?:can't|"
    r"cannot|mustn't|must not|(?:not|n't) (?:allowed|supposed) to) (?:eat|drink|have (?!(?:an?|"
    r"the|my|our|to|it|this|that)(?![a-z])))|(?:不能|不可以|不许|忌)[吃喝碰沾]"
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE memory_nodes DROP COLUMN health")
    op.execute("ALTER TABLE memory_nodes ADD COLUMN health boolean NOT NULL DEFAULT false")
    found = text("UPDATE memory_nodes SET health = true WHERE translate(description, '’', chr(39)) ~* :words")
    op.get_bind().execute(found, {"words": WORDS})
    op.execute(
        "CREATE INDEX memory_nodes_health_idx ON memory_nodes (group_id, agent_id, created_at) WHERE health"
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE memory_nodes ALTER COLUMN health DROP NOT NULL, ALTER COLUMN health DROP DEFAULT")
