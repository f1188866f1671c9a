package steelyard.hadoop.bayes;

/** What is counted when the corpus is made. */
enum Corpus {
  TRAINING_DOCUMENTS,
  HELD_OUT_DOCUMENTS,
  TRAINING_BYTES,
  HELD_OUT_BYTES,
  /** Held-out documents that whoever knows how they were made classifies rightly. */
  RECOGNISABLE
}
