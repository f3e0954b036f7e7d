// One file of the suite: a platform, its tests in every client form, and a check of the methods they called.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../harness.ts'
import { createFixture, type Fixture } from './realtime-fixture.ts'
import { type Area, calledMethods, requiredMethods } from './realtime-recorder.ts'
import { disconnectAll, newest, shapes } from './realtime-shapes.ts'

export type Part = (fixture: () => Fixture) => void

/** `once` are slow parts that run in one client form only. */
export function realtimeSuite(area: Area, parts: readonly Part[], once: readonly Part[] = []): void {
  unrefLongTimers()
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform?.stop())

  for (const shape of shapes)
    describe(shape.name, () => {
      let fixture: Fixture
      before(async () => {
        fixture = await createFixture(platform, shape)
      })
      afterEach(disconnectAll)
      for (const part of parts) part(() => fixture)
      if (shape === newest) for (const part of once) part(() => fixture)
    })

  test(`${area}: every required method is called by this suite`, () => {
    assert.deepEqual(
      requiredMethods[area].filter(method => !calledMethods.has(method)),
      [],
    )
  })
}

/** A disconnected client still has timers of 10 seconds and more. They must not keep the process alive. */
export function unrefLongTimers(): void {
  const { setTimeout: set } = globalThis
  const patient = (callback: (...given: any[]) => void, ms?: number, ...given: any[]) => {
    const timer = set(callback, ms, ...given)
    return ms !== undefined && ms >= 10_000 ? timer.unref() : timer
  }
  globalThis.setTimeout = Object.assign(patient, set) as typeof setTimeout
}
