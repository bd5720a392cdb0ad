"""All of SE-200: each actor, form, workspace, resource, verb and impersonation with each other (SE-T016)."""
import attack_model
import attack_stage

ONLY_WITH_ALL = "forty thousand requests"


def setUpModule():
    Attacks.stage = attack_stage.Stage()


class Attacks(attack_stage.Attacks):
    cases = attack_model.everything


if __name__ == "__main__":
    attack_stage.unittest.main()
