-- What changed from one week to the next, for every user and category. Spark runs it in three stages: a scan of each week,
-- joined with the dimensions and shuffled by user, and a last one that compares queries with titles, digests, aggregates,
-- joins the weeks, and writes the table of changes. Braces are filled in by driver.py. Every value is an integer
-- or text, so that the result does not depend on the order of rows.
INSERT OVERWRITE DIRECTORY '{output}' USING parquet
WITH first_week AS (
    SELECT /*+ REPARTITION({partitions}, user_id) */
           user_id, category_id, market_id, query, title, trace,
           (quantity * paid_cents * rate_millionths) DIV 1000000 AS spent_cents
    FROM (SELECT /*+ BROADCAST(items, regions, devices) */ *
          FROM events JOIN items USING (item_id) JOIN regions USING (region_id) JOIN devices USING (device_id)
          WHERE period = 0 AND NOT is_robot)
),
second_week AS (
    SELECT /*+ REPARTITION({partitions}, user_id) */
           user_id, category_id, market_id, query, title, trace,
           (quantity * paid_cents * rate_millionths) DIV 1000000 AS spent_cents
    FROM (SELECT /*+ BROADCAST(items, regions, devices) */ *
          FROM events JOIN items USING (item_id) JOIN regions USING (region_id) JOIN devices USING (device_id)
          WHERE period = 1 AND NOT is_robot)
),
first_sums AS (
    SELECT user_id, category_id, count(*) AS events, sum(spent_cents) AS spent_cents, max(market_id) AS market_id,
           sum(levenshtein(query, title)) AS distance, max(length(title)) AS longest,
           min(sha2(concat(trace, regexp_replace(title, '[aeiou]+', '*')), 256)) AS digest, max(query) AS query
    FROM first_week GROUP BY user_id, category_id
),
second_sums AS (
    SELECT user_id, category_id, count(*) AS events, sum(spent_cents) AS spent_cents, max(market_id) AS market_id,
           sum(levenshtein(query, title)) AS distance, max(length(title)) AS longest,
           min(sha2(concat(trace, regexp_replace(title, '[aeiou]+', '*')), 256)) AS digest, max(query) AS query
    FROM second_week GROUP BY user_id, category_id
)
SELECT user_id, category_id,
       coalesce(b.events, 0) AS events, coalesce(b.events, 0) - coalesce(a.events, 0) AS events_change,
       coalesce(b.spent_cents, 0) - coalesce(a.spent_cents, 0) AS spent_change_cents,
       coalesce(b.market_id, a.market_id) AS market_id,
       coalesce(b.distance, 0) - coalesce(a.distance, 0) AS distance_change,
       greatest(a.longest, b.longest) AS longest,
       levenshtein(coalesce(a.query, ''), coalesce(b.query, '')) AS query_change,
       sha2(concat(coalesce(a.digest, ''), coalesce(b.digest, '')), 256) AS digest,
       CASE WHEN a.events IS NULL THEN 'new' WHEN b.events IS NULL THEN 'gone'
            WHEN b.spent_cents > a.spent_cents THEN 'more' ELSE 'less' END AS trend
FROM first_sums a FULL OUTER JOIN second_sums b USING (user_id, category_id)
WHERE abs(coalesce(b.spent_cents, 0) - coalesce(a.spent_cents, 0)) >= 1000
