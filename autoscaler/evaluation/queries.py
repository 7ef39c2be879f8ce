"""What is asked of the tables of results, in SQL: ``{plans}`` and ``{two_dimensions}`` stand for the tables' names."""

from autoscaler.packing.problem.options import PUBLISHED

_PUBLISHED = ", ".join(f"'{name}'" for name in PUBLISHED)

# Per contender, delta and number of partitions: cardinal bin score (equation 28) against the fewest that any of the published
# twelve used at that measurement, so that adding a contender changes no other's score; below 0 is fewer than all of them.
SCORES = f"""
WITH fewest AS (
  SELECT delta, seed, partitions, measurement, min(consumers) AS m FROM {{plans}} WHERE contender IN ({_PUBLISHED})
  GROUP BY delta, seed, partitions, measurement
), per_seed AS (
  SELECT contender, delta, partitions, seed, 100 * avg((consumers - m) / m) AS cbs_percent, avg(consumers) AS consumers,
         avg(r_score) AS r_score, avg(moved) AS moved
  FROM {{plans}} JOIN fewest USING (delta, seed, partitions, measurement) GROUP BY contender, delta, partitions, seed
)
SELECT contender, delta, partitions, count(*) AS seeds, avg(cbs_percent) AS cbs_percent, avg(consumers) AS consumers,
       avg(r_score) AS r_score, avg(moved) AS moved, coalesce(stddev(r_score), 0) AS r_score_spread
FROM per_seed GROUP BY contender, delta, partitions ORDER BY partitions, delta, contender
"""  # noqa: S608  names of this module only

TWO_DIMENSIONS = """
SELECT algorithm, family, partitions, count(*) AS seeds, avg(consumers / lower_bound) AS over_bound, avg(consumers) AS consumers
FROM {two_dimensions} GROUP BY algorithm, family, partitions ORDER BY algorithm, family
"""
