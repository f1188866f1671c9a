-- ratings: what users think of films, in half stars. Every value follows from the row's number and the seed, as in
-- tables.sql; h(COLUMN, N) is a number in [0, 1) of a user or a film. Behind a rating stand the user's and the film's
-- leaning, four tastes that they share or do not, and noise: a model of low rank can learn it, and the mean cannot.
-- One rating in ten is not for training.
SELECT user_id, item_id,
       CAST(least(5.0D, greatest(0.5D, round(2 * (3.5D + 1.0D * (h(user_id, 91) - 0.5D) + 1.2D * (h(item_id, 92) - 0.5D)
            + 5.0D * ((h(user_id, 101) - 0.5D) * (h(item_id, 111) - 0.5D) + (h(user_id, 102) - 0.5D) * (h(item_id, 112) - 0.5D)
                    + (h(user_id, 103) - 0.5D) * (h(item_id, 113) - 0.5D) + (h(user_id, 104) - 0.5D) * (h(item_id, 114) - 0.5D))
            + 1.2D * (noise - 0.5D))) / 2)) AS FLOAT) AS rating,
       is_test
FROM (SELECT CAST(zipf(1, {users}, 0.5) AS INT) AS user_id,
             CAST(zipf(2, {items}, 0.8) AS INT) AS item_id,
             u(3) AS noise,
             u(4) < 0.1D AS is_test
      FROM range(0, {rows}, 1, {partitions}));
