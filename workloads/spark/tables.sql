-- The generated warehouse: every value follows from the row's number and the seed by hashing, so that the same seed and
-- number of rows give the same tables on every cluster. Braces are filled in by driver.py; u(N) is a number in [0, 1)
-- of column N, zipf(N, COUNT, S) a key of 1..COUNT whose frequency falls with rank^-S, word(N) one of 64 words.

-- events: what users did, in two periods of a week each
SELECT id AS event_id,
       zipf(1, {users}, 0.8) AS user_id,
       CAST(zipf(2, {items}, 0.9) AS INT) AS item_id,
       CAST(1 + floor(u(3) * {regions}) AS INT) AS region_id,
       CAST(zipf(4, {devices}, 1.1) AS INT) AS device_id,
       CAST(floor(u(5) * 604800) AS INT) AS second_of_week,
       CAST(1 + floor(pow(u(6), 3.0D) * 9) AS INT) AS quantity,
       CAST(floor(100.0D / pow(1 - u(7), 0.7D)) AS BIGINT) AS paid_cents,
       concat_ws(' ', word(8), word(9), word(10)) AS query,
       concat(hex(xxhash64(id, {seed}, 11)), hex(xxhash64(id, {seed}, 12))) AS trace,
       CAST(id % 2 AS INT) AS period
FROM range(0, {rows}, 1, {partitions});

-- items: what there is to see
SELECT CAST(id + 1 AS INT) AS item_id,
       CAST(zipf(21, {categories}, 0.7) AS INT) AS category_id,
       concat_ws(' ', word(22), word(23), word(24), word(25)) AS title,
       CAST(99 + floor(u(26) * 100000) AS BIGINT) AS price_cents
FROM range(0, {items}, 1, 1);

-- regions: where users are
SELECT CAST(id + 1 AS INT) AS region_id,
       concat(word(31), '-', CAST(id AS STRING)) AS region,
       CAST(floor(u(32) * 7) AS INT) AS market_id,
       CAST(200000 + floor(u(33) * 1800000) AS BIGINT) AS rate_millionths
FROM range(0, {regions}, 1, 1);

-- devices: what they use; one in ten is a robot, whose events do not count
SELECT CAST(id + 1 AS INT) AS device_id,
       concat(word(41), ' ', CAST(id AS STRING)) AS device,
       u(42) < 0.1D AS is_robot
FROM range(0, {devices}, 1, 1);
