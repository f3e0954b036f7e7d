// Saved queries and the history of a project: in the control database, so that they outlive a reset of the
// project's own and go when the project goes.
import type { HistoryEntry, HistoryWish, SavedQuery, SavedQueryWish } from '@plinth/contract/queries.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
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

    async save(projectId: string, wish: SavedQueryWish): Promise<SavedQuery> {
      const query = { id: wish.id, name: wish.name.trim(), sql: wish.sql, description: wish.description }
      const save = query.id === undefined ? store.saveByName : store.saveById
      const saved = await save(control, await idOf(projectId), query).catch(error => {
        if ((error as { code?: string }).code !== uniqueViolation) throw error
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

    async record(projectId: string, wish: HistoryWish): Promise<HistoryEntry> {
      const id = await idOf(projectId)
      const error = wish.error ?? null
      const recorded = await store.record(control, id, {
        sql: wish.sql,
        status: wish.status ?? (error === null ? 'success' : 'error'),
        duration_ms: wish.duration_ms ?? null,
        row_count: wish.row_count ?? null,
        error,
      })
      await store.forgetBeyond(control, id, historyKept)
      return recorded!
    },
  }
}
