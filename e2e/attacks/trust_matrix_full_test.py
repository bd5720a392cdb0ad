"""The trust matrix (SE-201, SE-T014) without choosing: every reserved key on every kind by every way and actor."""
import trust_matrix

ONLY_WITH_ALL = "ten thousand writes"


def setUpModule():
    trust_matrix.begin()


class Metadata(trust_matrix.Metadata):
    everything = True


if __name__ == "__main__":
    trust_matrix.unittest.main()
