"""Who asks what, how: each actor by each form of path with each verb, and each impersonation by each form, against a model of rights
(SE-200, SE-T016, SE-T006). All of them together: model_full_test.py."""
import attack_model
import attack_stage


def setUpModule():
    Attacks.stage = attack_stage.Stage()


class Attacks(attack_stage.Attacks):
    cases = attack_model.some


if __name__ == "__main__":
    attack_stage.unittest.main()
