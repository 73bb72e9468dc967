import time, os, traceback
from collections import Counter
from tests.exploration.play import Player
class TestTry(Player):
    def test_it(self):
        first, count = int(os.environ.get('FIRST','0')), int(os.environ.get('COUNT','10'))
        total=Counter()
        bad=0
        for seed in range(first, first+count):
            t=time.time()
            try:
                self.play(seed)
            except AssertionError as exc:
                bad+=1
                print('=====', seed, str(exc)[:20000]); 
                if exc.__cause__: traceback.print_exception(exc.__cause__)
            total+=self.figures
            print('seed', seed, round(time.time()-t,1), flush=True)
        print(total, bad)
