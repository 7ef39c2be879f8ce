"""SQL of the views that answer an operator's questions; ``docs/audit.md`` shows them at work.

Beside the path: read by ``jobs/history.py`` and by anybody's own Spark session. The four tables' names are views of the same
name, so that everything here is plain SQL over them.
"""

from collections.abc import Mapping

WHY = """
WITH told AS (
  SELECT *, lag(consumers) OVER (PARTITION BY `group` ORDER BY at, decision_id) AS wanted_before
  FROM decisions WHERE size(steps) > 0 AND acted OR mode = 'advise' AND recommended > 0
),
outcomes AS (SELECT decision_id, max(status) AS status, max(epoch) AS epoch FROM actions WHERE phase = 'outcome' GROUP BY 1)
SELECT t.`group`, t.cluster, t.at, coalesce(t.wanted_before, t.consumers_now) AS from_consumers, t.consumers AS to_consumers,
       t.reason, t.limited_by, t.detail, t.total_bytes_per_s, t.usable_bytes_per_s, t.lower_bound,
       o.status, o.epoch, t.decision_id
FROM told AS t LEFT JOIN outcomes AS o ON o.decision_id = t.decision_id
WHERE NOT t.consumers <=> coalesce(t.wanted_before, t.consumers_now)
"""

MOVES = """
WITH moved AS (
  SELECT d.`group`, d.cluster, d.at, d.decision_id, d.reason, d.r_score, d.usable_bytes_per_s, d.loads, s.topic, s.`partition`,
         s.source AS from_slot, s.target AS to_slot
  FROM decisions AS d LATERAL VIEW explode(d.steps) AS s
  WHERE d.acted AND s.kind = 'move'
),
published AS (SELECT decision_id, max(epoch) AS epoch, max(status) AS status FROM actions WHERE phase = 'outcome' GROUP BY 1)
SELECT m.`group`, m.cluster, m.at, m.reason, m.topic, m.`partition`, m.from_slot, m.to_slot, h.from_worker, h.to_worker,
       filter(m.loads, l -> l.topic = m.topic AND l.`partition` = m.`partition`)[0].bytes_per_s AS bytes_per_s,
       filter(m.loads, l -> l.topic = m.topic AND l.`partition` = m.`partition`)[0].bytes_per_s / m.usable_bytes_per_s
         AS r_share,
       m.r_score, h.pause_s, h.at AS taken_at, h.`offset`, p.epoch, p.status, m.decision_id
FROM moved AS m
LEFT JOIN published AS p ON p.decision_id = m.decision_id
LEFT JOIN handovers AS h
  ON h.`group` = m.`group` AND h.topic = m.topic AND h.`partition` = m.`partition` AND h.epoch = p.epoch
"""

UNDECIDED = """
SELECT `group`, cluster, at, reason, detail, partitions, unknown_partitions, first_unknown, oldest_s, consumers_now,
       dropped_before, decision_id
FROM loads
WHERE reason IN ('NOT_READY', 'STALE_INPUT')
"""

HISTORY = """
WITH marked AS (
  SELECT *, acted OR lag(acted) OVER w
            OR NOT (struct(reason, limited_by, consumers) <=> lag(struct(reason, limited_by, consumers)) OVER w) AS begins
  FROM decisions WINDOW w AS (PARTITION BY `group` ORDER BY at, decision_id)
),
spells AS (
  SELECT *, sum(if(begins, 1, 0)) OVER (PARTITION BY `group` ORDER BY at, decision_id) AS spell FROM marked
)
SELECT `group`, max_by(cluster, at) AS cluster, min(at) AS at, max(at) AS until, bool_or(acted) AS acted,
       min_by(consumers_now, at) AS consumers_now,
       max_by(consumers, at) AS consumers, max_by(reason, at) AS reason, max_by(limited_by, at) AS limited_by,
       size(filter(max_by(steps, at), s -> s.kind = 'add')) AS added,
       size(filter(max_by(steps, at), s -> s.kind = 'move')) AS moved,
       size(filter(max_by(steps, at), s -> s.kind = 'remove')) AS removed,
       max(total_bytes_per_s) AS bytes_per_s, max(total_lag_records) AS lag_records, max_by(r_score, at) AS r_score,
       max_by(detail, at) AS detail, bool_or(recovered) AS recovered
FROM spells GROUP BY `group`, spell
"""

UNPACK = "measured_of"  # a function that the session must have: the column ``measured`` as an array of ``tables.MEASURED``
PARTITION_LOADS = f"""
SELECT l.decision_id, l.`group`, l.cluster, l.at, l.sample_ts, m.*
FROM loads AS l LATERAL VIEW explode({UNPACK}(l.measured)) AS m
"""  # noqa: S608  our own name

VIEWS: Mapping[str, str] = {
    "why": WHY, "moves": MOVES, "undecided": UNDECIDED, "history": HISTORY, "partition_loads": PARTITION_LOADS,
}  # fmt: skip
