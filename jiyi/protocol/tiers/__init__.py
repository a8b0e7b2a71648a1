"""The tiers' part of the contract: questions and answers, texts for quarantine, knowledge, digests, the workflow node."""
