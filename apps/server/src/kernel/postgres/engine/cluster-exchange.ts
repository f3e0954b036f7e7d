// Puts another cluster in the place of the present one, while no server runs. Between the two renames there is no cluster, and
// the next start would make an empty one. So a note is written first, with which the next start ends the exchange.
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Place } from './place.ts'

interface Exchange {
  /** The cluster that takes the place. */
  made: string
  /** Where the present one is kept. */
  kept: string
}

const noteOf = ({ home }: Place) => join(home, 'cluster-exchange.json')

export function exchangeClusters(place: Place, exchange: Exchange): void {
  try {
    writeFileSync(noteOf(place), JSON.stringify(exchange), { mode: 0o600, flush: true })
    syncDirectory(place.home)
  } catch (error) {
    rmSync(noteOf(place), { force: true })
    throw error
  }
  renameSync(place.clusterDir, exchange.kept)
  renameSync(exchange.made, place.clusterDir)
  endExchange(place)
}

/** Puts a cluster in its place, where none is. */
export function placeCluster(place: Place, made: string): void {
  renameSync(made, place.clusterDir)
  syncDirectory(place.home)
}

/** Ends an exchange that was killed. Called before every start. */
export function finishExchange(place: Place): void {
  const note = noteOf(place)
  if (!existsSync(note)) return
  // While the cluster is in its place there is nothing to read, and a note that was cut off by a crash cannot be read.
  if (!existsSync(place.clusterDir)) {
    const { made, kept } = JSON.parse(readFileSync(note, 'utf8')) as Exchange
    renameSync(existsSync(made) ? made : kept, place.clusterDir)
  }
  endExchange(place)
}

function endExchange(place: Place): void {
  syncDirectory(place.home)
  rmSync(noteOf(place), { force: true })
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
