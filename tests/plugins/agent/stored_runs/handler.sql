BEGIN TRANSACTION;
CREATE TABLE spent (id TEXT PRIMARY KEY, expires REAL NOT NULL);
CREATE TABLE toolstile_decisions (
    decision_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE toolstile_effects (
    key TEXT NOT NULL PRIMARY KEY,
    tool_name TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    effect_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    expires_at INTEGER,
    message BLOB,
    value BLOB,
    excluded INTEGER NOT NULL DEFAULT 0,
    changes BLOB,
    unportable TEXT,
    reason TEXT,
    owner TEXT NOT NULL,
    lease REAL NOT NULL,
    secret INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_1:charge:19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','charge','19d540c938473b3b93136ce1318bcfb0f859049d7c25e13023a5d5a43b7ee852','3b0ead9e69ee351f9bb82a0000000000','s','call_0_1',1795868344802067,'done',NULL,X'',X'226368617267656420302D3022',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D30227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10571/299379',3024.731060736,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_2:charge:74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','charge','74e2aaae098ff7f116300594257f38e95268405e3693fa2c7a0c7a8d28bf5221','3b0ead9e69ee351f9bb82a0000000001','s','call_0_2',1795868344803560,'done',NULL,X'',X'226368617267656420302D3122',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D31227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10571/299379',3024.732060216,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_0_3:charge:ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','charge','ed3bd3c6cd24d2a82182886ed4525d1f1ac75896d5c12922fcaab773844be5fd','3b0ead9e69ee351f9bb82a0000000002','s','call_0_3',1795868344804721,'done',NULL,X'',X'226368617267656420302D3222',0,X'5B7B22646F223A2022617070656E64222C202274797065223A202272756E5F6472697665723A436861726765222C20226974656D73223A205B7B226B6579223A2022302D32227D5D7D5D',NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10571/299379',3024.733174536,0);
INSERT INTO "toolstile_effects" VALUES('call/s/call_1_1:refund:be8f6f8c3e76f9f44bef1d91f334d53dd6b0ba9853fdb4dba12cc4267a2500a4','refund','be8f6f8c3e76f9f44bef1d91f334d53dd6b0ba9853fdb4dba12cc4267a2500a4','6c70c11392c1c0b1c501910000000001','s','call_1_1',1795868345724361,'claimed',NULL,NULL,NULL,0,NULL,NULL,NULL,'066d8f7a-ef7b-430d-98d5-e196f7604a45/pid:[4026531836]/10576/299475',3025.653380762,0);
CREATE TABLE toolstile_sessions (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    decision_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    changes TEXT NOT NULL,
    has_files INTEGER NOT NULL,
    decided_at REAL NOT NULL,
    PRIMARY KEY (session_id, number)
) WITHOUT ROWID;
INSERT INTO "toolstile_sessions" VALUES('s',1,'18ec34bea1897afc1fe537b7911aedf2',0,'{"slices": {"toolstile_hookspecs:RequestTurn": {"at": 0, "items": [{"text": "Charge all.", "at": "2026-11-28T12:19:04.772493Z", "user_id": null, "source": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834477437400818e+09);
INSERT INTO "toolstile_sessions" VALUES('s',2,'18ec34bea1ac852555814fe482ccde07',0,'{"slices": {"agent.Message": {"at": 0, "items": [{"role": "user", "text": "Charge all.", "calls": [], "answers": [], "dialect": "", "items": [], "request_id": "request-1"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834477763891216e+09);
INSERT INTO "toolstile_sessions" VALUES('s',3,'18ec34bea2f715219c4da2db556d4910',0,'{"slices": {"agent.Message": {"at": 1, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_0_1", "name": "charge", "arguments": "{\"key\": \"0-0\"}"}, {"id": "call_0_2", "name": "charge", "arguments": "{\"key\": \"0-1\"}"}, {"id": "call_0_3", "name": "charge", "arguments": "{\"key\": \"0-2\"}"}, {"id": "call_0_4", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834479688596728e+09);
INSERT INTO "toolstile_sessions" VALUES('s',4,'18ec34bea2fedca2545b15fe83a7384f',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "099a28000e7842e3a55a1d9716c51123", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 1, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.019072844000220357, "model": "script"}]}}',0,1.79586834479907798771e+09);
INSERT INTO "toolstile_sessions" VALUES('s',5,'18ec34bea3c73095c36ab57cb0bfb63f',0,'{"slices": {"run_driver.Charge": {"at": 0, "items": [{"key": "0-0"}]}, "toolstile.state.replay:AppliedEffect": {"at": 0, "items": [{"effect_id": "3b0ead9e69ee351f9bb82a0000000000"}]}}, "records": [], "removed": [], "logs": {}}',0,1795868344.81181);
INSERT INTO "toolstile_sessions" VALUES('s',6,'18ec34bea3e6f3603e1d290edc52ffbb',0,'{"slices": {"run_driver.Charge": {"at": 1, "items": [{"key": "0-1"}]}, "toolstile.state.replay:AppliedEffect": {"at": 1, "items": [{"effect_id": "3b0ead9e69ee351f9bb82a0000000001"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834481243300433e+09);
INSERT INTO "toolstile_sessions" VALUES('s',7,'18ec34bea3ed5dc4264af8453e7c94b2',0,'{"slices": {"run_driver.Charge": {"at": 2, "items": [{"key": "0-2"}]}, "toolstile.state.replay:AppliedEffect": {"at": 2, "items": [{"effect_id": "3b0ead9e69ee351f9bb82a0000000002"}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834481280302995e+09);
INSERT INTO "toolstile_sessions" VALUES('s',8,'18ec34bea3fb234d161927cdb53ec696',0,'{"slices": {"agent.Message": {"at": 2, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_0_1", "name": "charge", "text": "charged 0-0", "is_error": false}, {"call_id": "call_0_2", "name": "charge", "text": "charged 0-1", "is_error": false}, {"call_id": "call_0_3", "name": "charge", "text": "charged 0-2", "is_error": false}, {"call_id": "call_0_4", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834481375598902e+09);
INSERT INTO "toolstile_sessions" VALUES('s',9,'18ec34bea405e3d01e126d54f17b267a',0,'{"slices": {"agent.Message": {"at": 3, "items": [{"role": "assistant", "text": "", "calls": [{"id": "call_1_1", "name": "refund", "arguments": "{\"key\": \"r\"}"}, {"id": "call_1_2", "name": "count", "arguments": "{}"}], "answers": [], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834481441211695e+09);
INSERT INTO "toolstile_sessions" VALUES('s',10,'18ec34bea4094f182abe1479bdd98c4d',0,'{"slices": {}, "records": [], "removed": [], "logs": {"agent.ModelReplied": [{"run_id": "099a28000e7842e3a55a1d9716c51123", "request_id": "request-1", "attempt": 1, "worker_id": null, "turn": 2, "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}, "duration": 0.000409285999921849, "model": "script"}]}}',0,1795868344.8146);
INSERT INTO "toolstile_sessions" VALUES('s',11,'18ec34bea43c30ca164672cbcff2a205',0,'{"slices": {"agent.Message": {"at": 4, "items": [{"role": "tool", "text": "", "calls": [], "answers": [{"call_id": "call_1_2", "name": "count", "text": "3", "is_error": false}], "dialect": "", "items": [], "request_id": null}]}}, "records": [], "removed": [], "logs": {}}',0,1.79586834481799101827e+09);
CREATE TABLE toolstile_sessions_about (
    identity TEXT NOT NULL, version TEXT NOT NULL
);
INSERT INTO "toolstile_sessions_about" VALUES('467844aeebae4d908e67c62110815229','1');
CREATE INDEX toolstile_effects_open ON toolstile_effects (created_at, key) WHERE state <> 'done';
COMMIT;
