"""Skills, workflows, changes of files and solutions that wait for approval, or were decided on, are one table."""

from __future__ import annotations

from alembic import op
from models.db.scope import hide_from_others, isolate

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

OF_AGENT = "FOREIGN KEY (group_id, agent_id) REFERENCES agents (group_id, agent_id) ON DELETE CASCADE"
OF_PAIN = "FOREIGN KEY (pain_id, group_id) REFERENCES pain_points (pain_id, group_id) ON DELETE CASCADE"
#: Both ways, by kind.
_NEW = "CASE status WHEN 'accepted' THEN 'approved' WHEN 'confirmed' THEN 'approved' WHEN 'declined' THEN 'rejected' ELSE status END"
_OF_SKILLS = "CASE status WHEN 'approved' THEN 'accepted' WHEN 'rejected' THEN 'declined' ELSE status END"
_SAYS_OF_SKILLS = (
    "'name', name, 'description', description, 'body', body, 'confidence', confidence, 'issues', issues"
)
_SAYS_OF_FILES = "'file', file, 'base_version', base_version, 'current', current, 'suggested', suggested, 'reflection_id', reflection_id"
_DECIDED = "created_at, decided_at, decided_by"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(f"""
        CREATE TEMPORARY TABLE solutions ON COMMIT DROP AS
        SELECT proposal_id, p.group_id, n.agent_id, n.user_id, pain_id, title, p.status, made_by, turns, {_DECIDED}, coalesce(
            (SELECT jsonb_agg(s.step ORDER BY s.number) FROM proposal_steps s WHERE (s.group_id, s.proposal_id) = (p.group_id, p.proposal_id)),
            '[]'
        ) AS steps
        FROM proposals p JOIN pain_points n USING (group_id, pain_id)
    """)  # noqa: S608 – no value
    op.execute("DROP TABLE proposal_steps, proposals")
    op.execute(f"""
        CREATE TABLE proposals (
            proposal_id uuid CONSTRAINT proposals_pkey PRIMARY KEY,
            group_id text NOT NULL,
            agent_id text NOT NULL,
            kind text NOT NULL CONSTRAINT proposals_kind_check CHECK (kind IN ('skill', 'pipeline', 'identity', 'solution')),
            user_id text,
            pattern_hash bytea,
            pain_id uuid,
            content jsonb NOT NULL,
            reason text NOT NULL DEFAULT '',
            status text NOT NULL DEFAULT 'pending' CONSTRAINT proposals_status_check
                CHECK (status IN ('refused', 'pending', 'approved', 'rejected', 'archived', 'deleted')),
            enabled boolean NOT NULL DEFAULT false,
            evidence uuid[] NOT NULL DEFAULT '{{}}',
            evidence_count integer NOT NULL DEFAULT 0,
            decided_evidence integer NOT NULL DEFAULT 0,
            made_by text NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            updated_at timestamptz NOT NULL DEFAULT now(),
            decided_at timestamptz,
            decided_by text,
            note text NOT NULL DEFAULT '',
            CONSTRAINT proposals_group_id_fkey {OF_AGENT},
            CONSTRAINT proposals_pain_id_fkey {OF_PAIN}
        )
    """)
    op.execute("CREATE UNIQUE INDEX proposals_once_idx ON proposals (group_id, agent_id, kind, pattern_hash)")
    op.execute(
        "CREATE UNIQUE INDEX proposals_one_pending_idx ON proposals (group_id, pain_id) WHERE status = 'pending'"
    )
    op.execute(f"""
        INSERT INTO proposals (proposal_id, group_id, agent_id, kind, user_id, pattern_hash, content, status, enabled, evidence,
            evidence_count, decided_evidence, made_by, updated_at, {_DECIDED})
        SELECT artifact_id, group_id, agent_id, artifact, user_id, pattern_hash,
            jsonb_build_object({_SAYS_OF_SKILLS}, 'triggers', to_jsonb(triggers), 'tools', to_jsonb(tools)),
            {_NEW}, enabled, evidence, evidence_count, decided_evidence, 'growth', updated_at, {_DECIDED} FROM artifacts
    """)  # noqa: S608 – no value
    op.execute(f"""
        INSERT INTO proposals (proposal_id, group_id, agent_id, kind, content, reason, status, evidence, evidence_count,
            decided_evidence, made_by, updated_at, note, {_DECIDED})
        SELECT proposal_id, group_id, agent_id, 'identity', jsonb_build_object({_SAYS_OF_FILES}), reason, status, evidence,
            cardinality(evidence), cardinality(evidence), author, coalesce(decided_at, created_at), note, {_DECIDED}
        FROM identity_proposals
    """)  # noqa: S608 – no value
    op.execute(f"""
        INSERT INTO proposals (proposal_id, group_id, agent_id, kind, user_id, pain_id, content, status, evidence_count,
            decided_evidence, made_by, updated_at, {_DECIDED})
        SELECT proposal_id, group_id, agent_id, 'solution', user_id, pain_id, jsonb_build_object('title', title, 'steps', steps),
            {_NEW}, turns, turns, made_by, coalesce(decided_at, created_at), {_DECIDED} FROM solutions
    """)  # noqa: S608 – no value
    for table in ("feedback", "trust"):
        name = f"{table}_artifact_id_fkey"
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} FOREIGN KEY (artifact_id) "
                   "REFERENCES proposals (proposal_id) ON DELETE CASCADE")  # fmt: skip
    op.execute("DROP TABLE artifacts, identity_proposals")
    op.execute("UPDATE audit_log SET action = 'evolution.approved' WHERE action = 'evolution.accepted'")
    op.execute("UPDATE audit_log SET action = 'evolution.rejected' WHERE action = 'evolution.declined'")
    for statement in (
        *isolate("proposals"),
        hide_from_others("proposals", "user_id IS NULL OR user_id = {user}"),
    ):
        op.execute(statement)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE proposals RENAME TO every_proposal")
    for name in ("pkey", "group_id_fkey", "pain_id_fkey", "kind_check", "status_check"):
        op.execute(f"ALTER TABLE every_proposal RENAME CONSTRAINT proposals_{name} TO every_proposal_{name}")
    op.execute("DROP INDEX proposals_once_idx, proposals_one_pending_idx")
    decided = "created_at timestamptz NOT NULL DEFAULT now(), decided_at timestamptz, decided_by text"
    op.execute(f"""
        CREATE TABLE artifacts (
            artifact_id uuid CONSTRAINT artifacts_pkey PRIMARY KEY, group_id text NOT NULL, agent_id text NOT NULL, artifact text NOT NULL,
            user_id text, pattern_hash bytea NOT NULL, name text NOT NULL, description text NOT NULL,
            triggers text[] NOT NULL DEFAULT '{{}}', tools text[] NOT NULL DEFAULT '{{}}', body text NOT NULL,
            confidence float8 NOT NULL, issues jsonb NOT NULL DEFAULT '[]', status text NOT NULL,
            enabled boolean NOT NULL DEFAULT false, evidence uuid[] NOT NULL DEFAULT '{{}}', evidence_count integer NOT NULL DEFAULT 0,
            decided_evidence integer NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now(), {decided},
            CONSTRAINT artifacts_group_id_fkey {OF_AGENT}
        );
        CREATE UNIQUE INDEX artifacts_once_idx ON artifacts (group_id, agent_id, artifact, pattern_hash);
        CREATE TABLE identity_proposals (
            proposal_id uuid, group_id text, agent_id text NOT NULL, file text NOT NULL
                CONSTRAINT identity_proposals_file_check CHECK (file IN ('SOUL', 'AGENTS', 'USER', 'HEARTBEAT')),
            reason text NOT NULL, base_version integer NOT NULL DEFAULT 0, current text NOT NULL DEFAULT '', suggested text NOT NULL,
            status text NOT NULL DEFAULT 'pending'
                CONSTRAINT identity_proposals_status_check CHECK (status IN ('pending', 'approved', 'rejected')),
            author text NOT NULL, evidence uuid[] NOT NULL DEFAULT '{{}}', reflection_id uuid, note text NOT NULL DEFAULT '', {decided},
            CONSTRAINT identity_proposals_pkey PRIMARY KEY (proposal_id, group_id),
            CONSTRAINT identity_proposals_group_id_fkey {OF_AGENT}
        );
        CREATE INDEX identity_proposals_group_id_agent_id_created_at_idx ON identity_proposals (group_id, agent_id, created_at);
        CREATE TABLE proposals (
            proposal_id uuid, group_id text, pain_id uuid NOT NULL, title text NOT NULL, status text NOT NULL DEFAULT 'pending'
                CONSTRAINT proposals_status_check CHECK (status IN ('pending', 'confirmed', 'rejected')),
            made_by text NOT NULL, turns integer NOT NULL DEFAULT 0, {decided},
            CONSTRAINT proposals_pkey PRIMARY KEY (proposal_id, group_id),
            CONSTRAINT proposals_pain_id_fkey {OF_PAIN}
        );
        CREATE UNIQUE INDEX proposals_one_pending_idx ON proposals (group_id, pain_id) WHERE status = 'pending';
        CREATE TABLE proposal_steps (
            group_id text, proposal_id uuid, number integer, step text NOT NULL,
            CONSTRAINT proposal_steps_pkey PRIMARY KEY (group_id, proposal_id, number),
            CONSTRAINT proposal_steps_proposal_id_fkey FOREIGN KEY (proposal_id, group_id)
                REFERENCES proposals (proposal_id, group_id) ON DELETE CASCADE
        );
        INSERT INTO artifacts (artifact_id, group_id, agent_id, artifact, user_id, pattern_hash, name, description, triggers, tools, body,
            confidence, issues, status, enabled, evidence, evidence_count, decided_evidence, updated_at, {_DECIDED})
        SELECT proposal_id, group_id, agent_id, kind, user_id, pattern_hash, content ->> 'name', content ->> 'description',
            ARRAY(SELECT jsonb_array_elements_text(content -> 'triggers')), ARRAY(SELECT jsonb_array_elements_text(content -> 'tools')),
            content ->> 'body', CAST(content ->> 'confidence' AS float8), content -> 'issues',
            {_OF_SKILLS}, enabled, evidence, evidence_count, decided_evidence, updated_at, {_DECIDED}
        FROM every_proposal WHERE kind IN ('skill', 'pipeline');
        INSERT INTO identity_proposals (proposal_id, group_id, agent_id, file, reason, base_version, current, suggested, status, author,
            evidence, reflection_id, note, {_DECIDED})
        SELECT proposal_id, group_id, agent_id, content ->> 'file', reason, CAST(content ->> 'base_version' AS integer),
            content ->> 'current', content ->> 'suggested', status, made_by, evidence, CAST(content ->> 'reflection_id' AS uuid), note,
            {_DECIDED}
        FROM every_proposal WHERE kind = 'identity';
        INSERT INTO proposals (proposal_id, group_id, pain_id, title, status, made_by, turns, {_DECIDED})
        SELECT proposal_id, group_id, pain_id, content ->> 'title', CASE status WHEN 'approved' THEN 'confirmed' ELSE status END, made_by,
            evidence_count, {_DECIDED}
        FROM every_proposal WHERE kind = 'solution';
        INSERT INTO proposal_steps (group_id, proposal_id, number, step)
        SELECT group_id, proposal_id, s.number, s.step
        FROM every_proposal, jsonb_array_elements_text(content -> 'steps') WITH ORDINALITY AS s (step, number) WHERE kind = 'solution'
    """)  # noqa: S608 – no value
    for table in ("feedback", "trust"):
        name = f"{table}_artifact_id_fkey"
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} FOREIGN KEY (artifact_id) "
                   "REFERENCES artifacts (artifact_id) ON DELETE CASCADE")  # fmt: skip
    op.execute("DROP TABLE every_proposal")
    op.execute("UPDATE audit_log SET action = 'evolution.accepted' WHERE action = 'evolution.approved'")
    op.execute("UPDATE audit_log SET action = 'evolution.declined' WHERE action = 'evolution.rejected'")
    for table in ("artifacts", "identity_proposals", "proposals", "proposal_steps"):
        for statement in isolate(table):
            op.execute(statement)
    op.execute(hide_from_others("artifacts", "user_id IS NULL OR user_id = {user}"))
