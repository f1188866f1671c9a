//! FeedSim's ranking service.
