"""Resource usage effectiveness (RUE): configurations compared within strata."""
