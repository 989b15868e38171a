"""The past lived again, aside, from what is kept of it: marble diagrams, second workbenches, statements run anew."""
