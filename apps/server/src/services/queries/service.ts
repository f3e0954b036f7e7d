// Saved queries and query history of a project. They are in the control database, so that a reset of the project database
// keeps them. They are deleted with the project.
import type { HistoryEntry, HistoryInput, SavedQuery, SavedQueryInput } from '@plinth/contract/queries.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import * as store from './store.ts'

const historyKept = 1000
const uniqueViolation = '23505'

export type QueriesService = ReturnType<typeof queriesService>

export function queriesService(control: Database, owner: Pick<OwnerWork, 'tenant'>) {
  const idOf = async (projectId: string) => (await owner.tenant(projectId)).id

  return {
    async listSaved(projectId: string, page: Paging) {
      return { ...(await store.listSaved(control, await idOf(projectId), page)), ...page }
    },

    async save(projectId: string, input: SavedQueryInput): Promise<SavedQuery> {
      const query = { id: input.id, name: input.name.trim(), sql: input.sql, description: input.description }
      const save = query.id === undefined ? store.saveByName : store.saveById
      const saved = await save(control, await idOf(projectId), query).catch(error => {
        if (sqlState(error) !== uniqueViolation) throw error
        throw new Refusal('already_exists', `Another saved query has the name ${JSON.stringify(query.name)}`)
      })
      return saved!
    },

    async removeSaved(projectId: string, queryId: string): Promise<void> {
      const removed = await store.removeSaved(control, await idOf(projectId), queryId)
      if (removed === 0) throw new Refusal('query_not_found', 'The project has no saved query of this id')
    },

    async listHistory(projectId: string, page: Paging) {
      return { ...(await store.listHistory(control, await idOf(projectId), page)), ...page }
    },

    async record(projectId: string, input: HistoryInput): Promise<HistoryEntry> {
      const id = await idOf(projectId)
      const error = input.error ?? null
      const recorded = await store.record(control, id, {
        sql: input.sql,
        status: input.status ?? (error === null ? 'success' : 'error'),
        duration_ms: input.duration_ms ?? null,
        row_count: input.row_count ?? null,
        error,
      })
      await store.forgetBeyond(control, id, historyKept)
      return recorded!
    },
  }
}
