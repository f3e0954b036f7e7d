// One file of the suite: a platform, its tests in every shape of the client, and a last look at what they called.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { called, type Theme, walked } from './realtime-recorder.ts'
import { hangUp, newest, shapes } from './realtime-shapes.ts'
import { type Stage, setStage } from './realtime-stage.ts'

export type Part = (stage: () => Stage) => void

/** `once` are parts that take too long to be had in every shape. */
export function realtimeSuite(theme: Theme, parts: readonly Part[], once: readonly Part[] = []): void {
  letGoOfLongTimers()
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
      afterEach(hangUp)
      for (const part of parts) part(() => stage)
      if (shape === newest) for (const part of once) part(() => stage)
    })

  test(`every method under ${theme} was called above`, () => {
    assert.deepEqual(
      walked[theme].filter(method => !called.has(method)),
      [],
    )
  })
}

/** A client that has hung up still has timers of ten seconds and more, for which the process need not stay. */
export function letGoOfLongTimers(): void {
  const { setTimeout: set } = globalThis
  const patient = (callback: (...given: any[]) => void, ms?: number, ...given: any[]) => {
    const timer = set(callback, ms, ...given)
    return ms !== undefined && ms >= 10_000 ? timer.unref() : timer
  }
  globalThis.setTimeout = Object.assign(patient, set) as typeof setTimeout
}
