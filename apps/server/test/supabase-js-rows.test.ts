// All methods of from(), rpc() and schema() of the unmodified @supabase/supabase-js, in both shapes of the URL.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { callerTests } from './supabase-js/callers.ts'
import { changeTests } from './supabase-js/changing.ts'
import { filterTests } from './supabase-js/filters.ts'
import { functionTests } from './supabase-js/functions.ts'
import { insertTests } from './supabase-js/inserting.ts'
import { readingTests } from './supabase-js/reading.ts'
import { uncalled } from './supabase-js/recorder.ts'
import { type Stage, setStage, shapes } from './supabase-js/stage.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

for (const shape of shapes)
  describe(shape.name, () => {
    let stage: Stage
    before(async () => {
      stage = await setStage(platform, shape)
    })
    const parts = [readingTests, filterTests, insertTests, changeTests, functionTests, callerTests]
    for (const part of parts) part(() => stage)
  })

test('every method of the client is called by this suite', () => {
  const client = shapes[1]!.connect(platform.url, 'any', 'key')
  const query = client.from('books')
  assert.deepEqual(uncalled({ client, query, builder: query.select() }), [])
})
