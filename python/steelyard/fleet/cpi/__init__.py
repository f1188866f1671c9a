"""CPI2: specs, outliers, antagonists and incidents, after Zhang et al. (EuroSys 2013)."""
