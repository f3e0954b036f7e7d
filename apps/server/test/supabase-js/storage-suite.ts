// Runs test files against a platform in both shapes of the URL, and checks that they called all methods.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { called, requiredMethods, type Theme } from './storage-recorder.ts'
import { shapes } from './storage-shapes.ts'
import { type Stage, setStage } from './storage-stage.ts'

export type Part = (stage: () => Stage) => void

export function storageSuite(theme: Theme | 'refusals', parts: readonly Part[]): void {
  let platform: TestPlatform
  before(async () => {
    // Rate limits of public and signed URLs count by IP address, which all tests share.
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
  test(`every method under ${theme} is called by this suite`, () => {
    assert.deepEqual(
      requiredMethods[theme].filter(method => !called.has(method)),
      [],
    )
  })
}
