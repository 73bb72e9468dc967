import logging, os
from tests.exploration import seeded
from tests.exploration.seeded import _lock_that_nobody_misses
from tests.exploration.world import World
from baremetal_acc_ironic import watch
class TestTry(World):
    def test_it(self):
        self.begin(7)
        orig = watch._Round.run
        def run(s):
            try:
                orig(s)
            finally:
                print('ROUND', self.site.machine.clock.now(), s._found, s._watched)
        watch._Round.run = run
        real = watch.LOG.error
        watch.LOG.logger.error = lambda *a, **k: print('ERR', a)
        watch.LOG.logger.info = lambda *a, **k: print('INFO', a)
        _lock_that_nobody_misses(self)
        print('\n'.join(self.story[-5:]))
