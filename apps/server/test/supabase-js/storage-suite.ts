// One file of the suite: a platform, its tests in both shapes of the URL, and a last look at what they called.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { called, type Theme, walked } from './storage-recorder.ts'
import { shapes } from './storage-shapes.ts'
import { type Stage, setStage } from './storage-stage.ts'

export type Part = (stage: () => Stage) => void

export function storageSuite(theme: Theme | 'refusals', parts: readonly Part[]): void {
  let platform: TestPlatform
  before(async () => {
    // Public and signed URLs are counted by address, which all tests share.
    platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
  })
  after(() => platform?.stop())

  for (const shape of shapes)
    describe(shape.name, () => {
      let stage: Stage
      before(async () => {
        stage = await setStage(platform, shape)
      })
      for (const part of parts) part(() => stage)
    })

  if (theme === 'refusals') return
  test(`every method under ${theme} was called above`, () => {
    assert.deepEqual(
      walked[theme].filter(method => !called.has(method)),
      [],
    )
  })
}
