"""SQL of the views that answer an operator's questions; ``docs/tasks/history.md`` shows them at work.

Beside the path: read by ``jobs/history.py`` and by any other Spark session. The four tables' names are views of the same
name, so that everything here is plain SQL over them. Of 0 consumers an earlier release spoke where none were asked for yet.
"""

from collections.abc import Mapping

WHY = """
WITH counted AS (
  SELECT *, CASE WHEN mode = 'advise' THEN consumers_now WHEN acted AND size(steps) > 0 THEN consumers END AS became
  FROM decisions
),
compared AS (
  SELECT *, last(consumers_now, true) OVER earlier AS observed_before, last(became, true) OVER earlier AS became_before
  FROM counted
  WINDOW earlier AS (PARTITION BY `group` ORDER BY at, decision_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
changed AS (
  SELECT *, if(mode = 'advise', observed_before, coalesce(became_before, consumers_now)) AS was FROM compared
),
outcomes AS (SELECT decision_id, max(status) AS status, max(epoch) AS epoch FROM actions WHERE phase = 'outcome' GROUP BY 1)
SELECT c.`group`, c.cluster, c.at, if(c.mode = 'advise', 'others', 'controller') AS changed_by,
       c.was AS from_consumers, c.became AS to_consumers, c.recommended, c.recommended_age_s,
       c.reason, c.limited_by, c.detail, c.total_bytes_per_s, c.usable_bytes_per_s, c.lower_bound,
       o.status, o.epoch, c.decision_id
FROM changed AS c LEFT JOIN outcomes AS o ON o.decision_id = c.decision_id
WHERE c.became IS NOT NULL AND NOT c.became <=> c.was AND (c.was IS NOT NULL OR c.mode <> 'advise')
"""

ADVICE = """
WITH compared AS (
  SELECT *, last(nullif(recommended, 0), true) OVER earlier AS was FROM decisions
  WINDOW earlier AS (PARTITION BY `group` ORDER BY at, decision_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT `group`, cluster, at, consumers_now AS observed_consumers, was AS from_recommended, recommended AS to_recommended,
       recommended_age_s, reason, detail, total_bytes_per_s, usable_bytes_per_s, lower_bound, decision_id
FROM compared WHERE mode = 'advise' AND recommended > 0 AND NOT recommended <=> was
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
SELECT `group`, cluster, at, reason, detail, partitions, unknown_partitions, first_unknown, oldest_s,
       consumers_now AS observed_consumers, dropped_before, decision_id
FROM loads
WHERE reason IN ('NOT_READY', 'STALE_INPUT')
"""

HISTORY = """
WITH marked AS (
  SELECT *, acted OR lag(acted) OVER w OR NOT (said <=> lag(said) OVER w) AS begins
  FROM (SELECT *, struct(mode, reason, limited_by, consumers, if(mode = 'advise', consumers_now, NULL)) AS said FROM decisions)
  WINDOW w AS (PARTITION BY `group` ORDER BY at, decision_id)
),
spells AS (
  SELECT *, sum(if(begins, 1, 0)) OVER (PARTITION BY `group` ORDER BY at, decision_id) AS spell FROM marked
)
SELECT `group`, max_by(cluster, at) AS cluster, min(at) AS at, max(at) AS until, max_by(mode, at) AS mode,
       bool_or(acted) AS acted, min_by(consumers_now, at) AS observed_consumers,
       max_by(if(mode = 'advise', NULL, nullif(consumers, 0)), at) AS requested_consumers,
       max_by(if(mode = 'advise', nullif(consumers, 0), NULL), at) AS advised_consumers,
       max_by(nullif(recommended, 0), at) AS recommended, max_by(recommended_age_s, at) AS recommended_age_s,
       max_by(reason, at) AS reason, max_by(limited_by, at) AS limited_by,
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
    "why": WHY, "advice": ADVICE, "moves": MOVES, "undecided": UNDECIDED, "history": HISTORY, "partition_loads": PARTITION_LOADS,
}  # fmt: skip
