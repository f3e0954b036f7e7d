// Where a test run keeps its clusters and files. In memory if there is enough: a run creates thousands of databases.
import { accessSync, constants, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'

const inMemory = '/dev/shm'
/** More than a run needs at a time, because its processes need memory too. */
const neededBytes = 8 * 1024 ** 3

export function scratchDirectory(): string {
  const isChosen = process.env['TMPDIR'] !== undefined
  return isChosen || !hasRoom() || !runsPrograms() ? tmpdir() : inMemory
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(inMemory)
    return Math.min(bavail * bsize, freemem()) > neededBytes
  } catch {
    return false
  }
}

/** The tests run programs from there, which a mount option can forbid. */
function runsPrograms(): boolean {
  const directory = mkdtempSync(join(inMemory, 'plinth-'))
  try {
    const program = join(directory, 'program')
    writeFileSync(program, '', { mode: 0o700 })
    accessSync(program, constants.X_OK)
    return true
  } catch {
    return false
  } finally {
    rmSync(directory, { recursive: true })
  }
}
