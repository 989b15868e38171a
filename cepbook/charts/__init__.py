"""Charts that draw without a network, by altair, which is imported when the first chart is made."""
